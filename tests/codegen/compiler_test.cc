#include "graphex/codegen/compiler.h"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <numeric>

namespace graphex::codegen {
namespace {

KernelRequest skeleton(int64_t keep) { return HandKernel{"skeleton", "gx_skeleton", {{"kKeep", keep}}}; }

std::vector<float> run_skeleton(const Kernel& kernel, int64_t n, float alpha) {
  std::vector<float> x(n), y(n, 1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  void* pointers[] = {x.data(), y.data()};
  const int64_t sizes[] = {n, std::bit_cast<int32_t>(alpha)};
  kernel.run(pointers, sizes, 0, kernel.tiles(sizes), nullptr);
  return y;
}

TEST(Compiler, RunsAKernel) {
  KernelCompiler compiler({.use_cache = false});
  const KernelRequest requests[] = {skeleton(1), skeleton(0)};
  const auto kernels = compiler.compile(requests);
  EXPECT_EQ(run_skeleton(kernels[0], 10000, 0.5f)[9999], 0.5f * 9999 + 1);
  EXPECT_EQ(run_skeleton(kernels[1], 10000, 0.5f)[9999], 0.5f * 9999);
}

}  // namespace
}  // namespace graphex::codegen
