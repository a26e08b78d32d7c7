// The passes: tests/passes/*.gx hold a graph, a line of dashes, and what the pipeline makes of it; and the runner's
// options.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "graphex/base/error.h"
#include "graphex/passes/passes.h"

namespace graphex::passes {
namespace {

std::vector<std::filesystem::path> cases() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/passes"))
    if (entry.path().extension() == ".gx") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(Pipeline, MakesOfEachFileWhatItSays) {
  ASSERT_FALSE(cases().empty());
  for (const auto& path : cases()) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    const std::string all = text.str(), line = "\n----\n";
    const size_t at = all.find(line);
    ASSERT_NE(at, std::string::npos) << path;
    const auto graph = ir::parse(all.substr(0, at));
    run_pipeline(*graph, {});
    EXPECT_EQ(ir::print(*graph), all.substr(at + line.size())) << path;
  }
}

constexpr const char* kTwice = R"(graph @g {
  %x: f32[4] = input
  %a: f32[4] = neg(%x)
  %b: f32[4] = neg(%x)
  %c: f32[4] = add(%a, %b)
  return %c
}
)";

TEST(Runner, LeavesOutDisabledPasses) {
  const auto graph = ir::parse(kTwice);
  const auto times = run_pipeline(*graph, {.disabled = {"merge_common"}});
  EXPECT_EQ(ir::print(*graph), kTwice);
  EXPECT_EQ(times.size(), pipeline().size() - 1);
  for (const PassTime& time : times) EXPECT_GE(time.seconds, 0) << time.name;
}

TEST(Runner, LeavesOutAll) {
  const auto graph = ir::parse(kTwice);
  const RunOptions options{.disabled = {"all"}};
  EXPECT_TRUE(run_pipeline(*graph, options).empty());
  EXPECT_FALSE(options.runs(kFuseLoops));
  EXPECT_TRUE(RunOptions{.disabled = {"merge_common"}}.runs(kFuseLoops));
}

TEST(Runner, AnUnknownNameListsTheKnown) {
  const auto graph = ir::parse(kTwice);
  try {
    run_pipeline(*graph, {.disabled = {"merge_comon"}});
    ADD_FAILURE() << "an unknown pass was accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("merge_comon"), std::string::npos) << message;
    for (const Pass& pass : pipeline()) EXPECT_NE(message.find(pass.name), std::string::npos) << message;
  }
}

TEST(Runner, DumpsOnlyWhatChanged) {
  const auto graph = ir::parse(kTwice);
  std::vector<std::string> names;
  RunOptions options;
  options.dump = [&](const char* pass, const std::string& text) {
    names.push_back(pass);
    EXPECT_EQ(text.find("%b"), std::string::npos) << text;
  };
  run_pipeline(*graph, options);
  EXPECT_EQ(names, std::vector<std::string>{"merge_common"});
}

}  // namespace
}  // namespace graphex::passes
