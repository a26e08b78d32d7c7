#include "graphex/codegen/compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "graphex/base/error.h"

namespace graphex::codegen {
namespace {

namespace fs = std::filesystem;

KernelRequest skeleton(int64_t keep) { return HandKernel{"skeleton", "gx_skeleton", {{"kKeep", keep}}}; }

Kernel compile_one(KernelCompiler& compiler, const KernelRequest& request) {
  return compiler.compile({&request, 1})[0];
}

std::string message_of(const KernelRequest& request) {
  KernelCompiler compiler({.use_cache = false});
  try {
    compile_one(compiler, request);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// The kernel over `x` = 0, 1, 2, ... and `y` = 1, its tiles cut in two calls.
std::vector<float> run_skeleton(const Kernel& kernel, int64_t n, float alpha) {
  std::vector<float> x(n), y(n, 1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  void* pointers[] = {x.data(), y.data()};
  const int64_t sizes[] = {n, std::bit_cast<int32_t>(alpha)};
  const int64_t tiles = kernel.tiles(sizes);
  kernel.run(pointers, sizes, 0, tiles / 2, nullptr);
  kernel.run(pointers, sizes, tiles / 2, tiles, nullptr);
  return y;
}

std::vector<float> expected_skeleton(int64_t n, float alpha, bool keep) {
  std::vector<float> y(n, 1.0f);
  for (int64_t i = 0; i < n; ++i) y[i] = alpha * static_cast<float>(i) + (keep ? 1.0f : 0.0f);
  return y;
}

class CompilerLevel : public testing::TestWithParam<std::optional<Isa>> {};

TEST_P(CompilerLevel, KernelsComputeWhatTheySay) {
  if (GetParam() && *GetParam() > host_isa()) GTEST_SKIP() << "the host lacks this level";
  KernelCompiler compiler({.isa = GetParam(), .use_cache = false});
  const KernelRequest requests[] = {skeleton(1), skeleton(0)};
  const auto kernels = compiler.compile(requests);
  for (const int64_t n : {0, 1, 7, 4096, 4097, 20000}) {
    EXPECT_EQ(run_skeleton(kernels[0], n, 0.5f), expected_skeleton(n, 0.5f, true)) << n;
    EXPECT_EQ(run_skeleton(kernels[1], n, -3.0f), expected_skeleton(n, -3.0f, false)) << n;
  }
  EXPECT_EQ(kernels[0].name, "gx_skeleton");
  EXPECT_EQ(kernels[0].workspace, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Levels, CompilerLevel,
                         testing::Values(std::nullopt, Isa::kGeneric, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& info) {
                           return info.param ? std::string(name_of(*info.param)) : std::string("native");
                         });

TEST(Compiler, KnobsAreFolded) {
  const std::string keep = compile_to_object(skeleton(1), Isa::kAvx2);
  const std::string overwrite = compile_to_object(skeleton(0), Isa::kAvx2);
  EXPECT_NE(overwrite, keep);
  EXPECT_EQ(overwrite.find("kKeep"), std::string::npos);
  EXPECT_EQ(keep.find("kKeep"), std::string::npos);
}

TEST(Compiler, EqualRequestsShareOneKernel) {
  KernelCompiler compiler({.use_cache = false});
  const KernelRequest requests[] = {skeleton(1), skeleton(0), skeleton(1)};
  const auto kernels = compiler.compile(requests);
  EXPECT_EQ(kernels[0].run, kernels[2].run);
  EXPECT_NE(kernels[0].run, kernels[1].run);
  EXPECT_EQ(compile_one(compiler, skeleton(0)).run, kernels[1].run);
  EXPECT_EQ(compiler.stats().compiled, 2);
  EXPECT_EQ(compiler.stats().reused, 2);
  EXPECT_GT(compiler.stats().seconds, 0);
}

TEST(Compiler, ThreadsShareOneCompilation) {
  KernelCompiler compiler({.use_cache = false});
  std::vector<GxKernel> found(8);
  {
    std::vector<std::jthread> threads;
    for (GxKernel& run : found) threads.emplace_back([&] { run = compile_one(compiler, skeleton(1)).run; });
  }
  for (const GxKernel run : found) EXPECT_EQ(run, found[0]);
  EXPECT_EQ(compiler.stats().compiled, 1);
  EXPECT_EQ(compiler.stats().reused, 7);
}

TEST(Compiler, AnUnknownModuleListsTheKnown) {
  const std::string message = message_of(HandKernel{"skeletton", "gx_skeleton", {}});
  EXPECT_NE(message.find("no kernel module 'skeletton'"), std::string::npos) << message;
  EXPECT_NE(message.find("skeleton"), std::string::npos) << message;
}

TEST(Compiler, AnUnknownEntryListsTheKnown) {
  EXPECT_EQ(message_of(HandKernel{"skeleton", "gx_skeleton_tiles", {}}),
            "kernel module 'skeleton' has no kernel 'gx_skeleton_tiles'; it has: gx_skeleton");
}

TEST(Compiler, KnobsMustBeTheModules) {
  EXPECT_EQ(message_of(HandKernel{"skeleton", "gx_skeleton", {{"kKeep", 1}, {"kDrop", 1}}}),
            "kernel module 'skeleton' has no knob 'kDrop'; it has: kKeep");
  EXPECT_EQ(message_of(HandKernel{"skeleton", "gx_skeleton", {}}),
            "kernel 'gx_skeleton' of module 'skeleton' reads the knob 'kKeep', which the request doesn't set");
}

TEST(Compiler, AFailureSparesTheOthersAndMayBeRepeated) {
  KernelCompiler compiler({.use_cache = false});
  const KernelRequest bad = HandKernel{"skeleton", "gx_skeleton", {}};
  const KernelRequest requests[] = {skeleton(1), bad};
  EXPECT_THROW(compiler.compile(requests), Error);
  EXPECT_THROW(compile_one(compiler, bad), Error);
  EXPECT_EQ(run_skeleton(compile_one(compiler, skeleton(1)), 10, 2.0f), expected_skeleton(10, 2.0f, true));
  EXPECT_EQ(compiler.stats().compiled, 1);
}

// Data loaders and servers fork: a child goes on with its parent's compiler.
TEST(Compiler, WorksInAForkedChild) {
  KernelCompiler compiler({.use_cache = false});
  const Kernel before = compile_one(compiler, skeleton(1));
  const pid_t child = fork();
  if (child == 0) {
    const bool old_works = run_skeleton(before, 100, 2.0f) == expected_skeleton(100, 2.0f, true);
    const Kernel fresh = compile_one(compiler, skeleton(0));
    const bool new_works = run_skeleton(fresh, 100, 2.0f) == expected_skeleton(100, 2.0f, false);
    _exit(old_works && new_works ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

class CompilerCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "gx-compiler-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  CompilerStats compile_and_check() {
    KernelCompiler compiler({.cache_dir = folder_});
    const KernelRequest requests[] = {skeleton(1), skeleton(0)};
    const auto kernels = compiler.compile(requests);
    EXPECT_EQ(run_skeleton(kernels[0], 5000, 2.0f), expected_skeleton(5000, 2.0f, true));
    EXPECT_EQ(run_skeleton(kernels[1], 5000, 2.0f), expected_skeleton(5000, 2.0f, false));
    return compiler.stats();
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(folder_ + "/kernels")) paths.push_back(entry.path());
    return paths;
  }

  std::string folder_;
};

TEST_F(CompilerCache, TheNextCompilerLoads) {
  EXPECT_EQ(compile_and_check().compiled, 2);
  const CompilerStats stats = compile_and_check();
  EXPECT_EQ(stats.compiled, 0);
  EXPECT_EQ(stats.from_cache, 2);
  EXPECT_EQ(stats.cache_rejected, 0);
}

TEST_F(CompilerCache, LevelsDoNotMix) {
  if (detect_isa() == Isa::kGeneric) GTEST_SKIP() << "there is one level only";
  compile_and_check();
  KernelCompiler generic({.isa = Isa::kGeneric, .cache_dir = folder_});
  compile_one(generic, skeleton(1));
  EXPECT_EQ(generic.stats().compiled, 1);
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(CompilerCache, DamagedFilesAreReplaced) {
  compile_and_check();
  fs::resize_file(files()[0], 100);
  std::ofstream(files()[1], std::ios::binary | std::ios::trunc) << "not ours";
  const CompilerStats stats = compile_and_check();
  EXPECT_EQ(stats.compiled, 2);
  EXPECT_EQ(stats.cache_rejected, 2);
  EXPECT_EQ(compile_and_check().from_cache, 2);
}

TEST_F(CompilerCache, AFolderThatOthersCouldWriteIsNotLoadedFrom) {
  compile_and_check();
  chmod(folder_.c_str(), 0777);
  testing::internal::CaptureStderr();
  EXPECT_EQ(compile_and_check().compiled, 2);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("graphex: the cache of compiled kernels is off: the folder " + folder_), std::string::npos)
      << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
}

TEST_F(CompilerCache, SwitchedOffItStaysAway) {
  KernelCompiler compiler({.cache_dir = folder_ + "/never", .use_cache = false});
  compile_one(compiler, skeleton(1));
  EXPECT_FALSE(fs::exists(folder_ + "/never"));
  EXPECT_EQ(compiler.cache_problem(), "it is switched off");
}

}  // namespace
}  // namespace graphex::codegen
