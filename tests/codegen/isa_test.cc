#include "graphex/codegen/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "graphex/base/error.h"
#include "graphex/codegen/compiler.h"

namespace graphex::codegen {
namespace {

class IsaVariable : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* text = std::getenv("GRAPHEX_ISA")) before_ = text;
  }
  void TearDown() override { before_ ? setenv("GRAPHEX_ISA", before_->c_str(), 1) : unsetenv("GRAPHEX_ISA"); }

 private:
  std::optional<std::string> before_;
};

std::string message_of(const std::string& variable) {
  setenv("GRAPHEX_ISA", variable.c_str(), 1);
  try {
    detect_isa();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Isa, NamesParseBack) {
  for (const Isa isa : kIsas) EXPECT_EQ(parse_isa(name_of(isa)), isa);
  EXPECT_EQ(parse_isa("native"), std::nullopt);
  EXPECT_EQ(parse_isa(""), std::nullopt);
}

TEST_F(IsaVariable, CapsTheLevel) {
  for (const Isa isa : kIsas) {
    if (isa > host_isa()) continue;
    setenv("GRAPHEX_ISA", std::string(name_of(isa)).c_str(), 1);
    EXPECT_EQ(detect_isa(), isa);
    EXPECT_EQ(KernelCompiler({.use_cache = false}).isa(), isa);
  }
  for (const char* text : {"native", ""}) {
    setenv("GRAPHEX_ISA", text, 1);
    EXPECT_EQ(detect_isa(), host_isa());
  }
}

// A cap means exactly that level: what the host has beyond it stays unused.
TEST_F(IsaVariable, ACapNamesTheLevelsProcessor) {
  setenv("GRAPHEX_ISA", "generic", 1);
  EXPECT_EQ(KernelCompiler({.use_cache = false}).cpu_name(), "x86-64-v2");
  setenv("GRAPHEX_ISA", "native", 1);
  EXPECT_NE(KernelCompiler({.use_cache = false}).cpu_name(), "x86-64-v2");
}

TEST_F(IsaVariable, OptionsWinOverTheVariable) {
  setenv("GRAPHEX_ISA", "nonsense", 1);
  EXPECT_EQ(KernelCompiler({.isa = Isa::kGeneric, .use_cache = false}).isa(), Isa::kGeneric);
}

TEST_F(IsaVariable, OtherTextIsRefused) {
  for (const char* text : {"avx", "AVX2", "avx2 ", "0"}) {
    EXPECT_EQ(message_of(text),
              "GRAPHEX_ISA is '" + std::string(text) + "'; expected generic, avx2, avx512, avx512bf16 or native");
  }
}

TEST_F(IsaVariable, ALevelThatTheHostLacksIsRefused) {
  if (host_isa() == kIsas[std::size(kIsas) - 1]) GTEST_SKIP() << "this host has every level";
  const std::string message = message_of("avx512bf16");
  EXPECT_NE(message.find("'avx512bf16' was asked for"), std::string::npos) << message;
  EXPECT_NE(message.find("GRAPHEX_ISA=" + std::string(name_of(host_isa()))), std::string::npos) << message;
}

}  // namespace
}  // namespace graphex::codegen
