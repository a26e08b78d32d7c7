// Every kernel must become machine code at every level, on any host: a level that no developer's machine has still
// ships.
#include <gtest/gtest.h>

#include "graphex/codegen/compiler.h"
#include "graphex/kernels/blobs.h"

namespace graphex::codegen {
namespace {

using kernels::Blob;

class AllKernels : public testing::TestWithParam<Blob> {};

Isa level_of(const Blob& blob) { return *parse_isa(blob.level); }

HandKernel with_knobs(const KernelEntry& entry, int64_t value) {
  HandKernel request{entry.module, entry.entry, {}};
  for (const std::string& knob : entry.knobs) request.knobs.emplace_back(knob, value);
  return request;
}

// Whatever the knobs say, an entry compiles, and needs nothing that the JIT doesn't have. One common value for all
// knobs reaches the usual branches: 0 and 1 choose variants, -1 leaves sizes open.
TEST_P(AllKernels, Compile) {
  const Isa isa = level_of(GetParam());
  for (const KernelEntry& entry : kernel_entries(isa)) {
    if (entry.module != GetParam().name) continue;
    for (const int64_t value : {-1, 0, 1}) {
      if (entry.knobs.empty() && value != 0) continue;
      const std::string object = compile_to_object(with_knobs(entry, value), isa);
      EXPECT_EQ(unresolved_symbols(object), std::vector<std::string>()) << entry.entry << " with knobs " << value;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Blobs, AllKernels, testing::ValuesIn(kernels::blobs().begin(), kernels::blobs().end()),
                         [](const auto& info) {
                           return std::string(info.param.name) + "_" + std::string(info.param.level);
                         });

TEST(KernelEntries, ListsTheSkeletonWithItsKnob) {
  for (const KernelEntry& entry : kernel_entries(Isa::kGeneric)) {
    if (entry.entry != "gx_skeleton") continue;
    EXPECT_EQ(entry.module, "skeleton");
    EXPECT_EQ(entry.knobs, std::vector<std::string>{"kKeep"});
    return;
  }
  FAIL() << "gx_skeleton is not listed";
}

}  // namespace
}  // namespace graphex::codegen
