// The sanitizers see into kernels: planted faults are reported, at every level that the host has.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <memory>
#include <thread>

#include "graphex/codegen/compiler.h"

namespace graphex::codegen {
namespace {

#if __has_feature(address_sanitizer)
constexpr bool kAddress = true;
#else
constexpr bool kAddress = false;
#endif
#if __has_feature(thread_sanitizer)
constexpr bool kThread = true;
#else
constexpr bool kThread = false;
#endif

// y = 2 x on the first `n` of `size` floats, by kernels that are told the truth about neither sharing nor size.
class Planted : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > host_isa()) GTEST_SKIP() << "the host lacks this level";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const KernelRequest request = HandKernel{"skeleton", "gx_skeleton", {{"kKeep", 0}}};
    kernel_ = compiler().compile({&request, 1})[0];
  }

  KernelCompiler& compiler() {
    if (!compiler_)
      compiler_ = std::make_unique<KernelCompiler>(CompilerOptions{.isa = GetParam(), .use_cache = false});
    return *compiler_;
  }

  void run(const float* x, float* y, int64_t n) const {
    void* pointers[] = {const_cast<float*>(x), y};
    const int64_t sizes[] = {n, std::bit_cast<int32_t>(2.0f)};
    kernel_.run(pointers, sizes, 0, kernel_.tiles(sizes), nullptr);
  }

 private:
  std::unique_ptr<KernelCompiler> compiler_;
  Kernel kernel_;
};

constexpr int64_t kSize = 100;

TEST_P(Planted, OverrunOfOneElementIsReported) {
  if (!kAddress) GTEST_SKIP() << "needs the asan preset";
  const auto x = std::make_unique<float[]>(kSize), y = std::make_unique<float[]>(kSize);
  const auto more = std::make_unique<float[]>(kSize + 1);
  run(x.get(), y.get(), kSize);
  EXPECT_DEATH(run(more.get(), y.get(), kSize + 1), "heap-buffer-overflow");
  EXPECT_DEATH(run(x.get(), more.get(), kSize + 1), "heap-buffer-overflow");
}

TEST_P(Planted, RaceIsReported) {
  if (!kThread) GTEST_SKIP() << "needs the tsan preset";
  if (GetParam() != Isa::kGeneric) GTEST_SKIP() << "the thread sanitizer doesn't see vectors beyond 16 bytes";
  const auto x = std::make_unique<float[]>(kSize), y = std::make_unique<float[]>(kSize);
  const auto race = [&] {
    std::thread other([&] { run(x.get(), y.get(), kSize); });
    run(x.get(), y.get(), kSize);
    other.join();
    std::exit(0);
  };
  EXPECT_EXIT(race(), testing::ExitedWithCode(66), "data race");
}

INSTANTIATE_TEST_SUITE_P(, Planted, testing::ValuesIn(kIsas),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace graphex::codegen
