#include "graphex/codegen/jit.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>

#include "graphex/base/error.h"
#include "graphex/codegen/compiler.h"

namespace graphex::codegen {
namespace {

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

template <class Function>
Function* symbol(std::string_view name) {
  for (const RuntimeSymbol& runtime : runtime_symbols())
    if (name == runtime.name) return reinterpret_cast<Function*>(runtime.address);
  return nullptr;
}

TEST(Jit, NamesTheSymbolsThatNobodyDefines) {
  const std::string object = read_file(GX_UNDEFINED_CALLEE);
  EXPECT_FALSE(unresolved_symbols(object).empty());
  Jit jit;
  const std::string message = message_of([&] { jit.link(object, "gx_caller"); });
  EXPECT_NE(message.find("gx_caller"), std::string::npos) << message;
  EXPECT_NE(message.find("gx_nobody_defines_this"), std::string::npos) << message;
}

TEST(Jit, AFailedLinkLeavesItUsable) {
  Jit jit;
  EXPECT_THROW(jit.link(read_file(GX_UNDEFINED_CALLEE), "gx_caller"), Error);
  EXPECT_THROW(jit.link("not an object", "gx_skeleton"), Error);
  const std::string object = compile_to_object(HandKernel{"skeleton", "gx_skeleton", {{"kKeep", 1}}}, Isa::kGeneric);
  const std::string message = message_of([&] { jit.link(object, "gx_other"); });
  EXPECT_NE(message.find("gx_other"), std::string::npos) << message;
  const LinkedKernel kernel = jit.link(object, "gx_skeleton");
  const int64_t sizes[] = {8193, 0};
  EXPECT_EQ(kernel.tiles(sizes), 3);
  EXPECT_EQ(kernel.workspace, nullptr);
}

// All halves: widening is exact, and narrowing brings each back.
TEST(RuntimeSymbols, HalvesRoundTrip) {
  auto* widen = symbol<float(_Float16)>("__extendhfsf2");
  auto* narrow = symbol<_Float16(float)>("__truncsfhf2");
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = std::bit_cast<_Float16>(static_cast<uint16_t>(bits));
    const float value = widen(half);
    ASSERT_TRUE(value == static_cast<float>(half) || (std::isnan(value) && (bits & 0x7fff) > 0x7c00)) << bits;
    if (!std::isnan(value)) ASSERT_EQ(std::bit_cast<uint16_t>(narrow(value)), bits);
  }
  EXPECT_TRUE(std::isnan(widen(narrow(NAN))));
}

// Floats around every half and halfway between neighbours, against the compiler's conversion.
TEST(RuntimeSymbols, NarrowingRoundsToNearestEven) {
  auto* from_float = symbol<_Float16(float)>("__truncsfhf2");
  auto* from_double = symbol<_Float16(double)>("__truncdfhf2");
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    const float step =
        bits < 0x7bff ? static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits + 1))) - low : 32;
    for (const float value :
         {low + step / 2, std::nextafter(low + step / 2, 0.0f), low + step * 0.51f, -low - step / 2}) {
      const auto expected = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
      ASSERT_EQ(std::bit_cast<uint16_t>(from_float(value)), expected) << value;
      ASSERT_EQ(std::bit_cast<uint16_t>(from_double(value)), expected) << value;
    }
  }
  EXPECT_EQ(std::bit_cast<uint16_t>(from_float(65520.0f)), 0x7c00);
  EXPECT_EQ(std::bit_cast<uint16_t>(from_double(-1e300)), 0xfc00);
  EXPECT_EQ(std::bit_cast<uint16_t>(from_double(1e-300)), 0);
}

TEST(RuntimeSymbols, BfloatsRoundToNearestEven) {
  auto* narrow = symbol<_Float16(float)>("__truncsfbf2");
  const auto bits_of = [&](uint32_t bits) { return std::bit_cast<uint16_t>(narrow(std::bit_cast<float>(bits))); };
  EXPECT_EQ(bits_of(0x3f800000), 0x3f80);
  EXPECT_EQ(bits_of(0x3f808000), 0x3f80);  // a tie goes to even
  EXPECT_EQ(bits_of(0x3f818000), 0x3f82);
  EXPECT_EQ(bits_of(0x3f808001), 0x3f81);
  EXPECT_EQ(bits_of(0x7f7fffff), 0x7f80);  // rounds to infinity
  EXPECT_EQ(bits_of(0x00008001), 0x0001);  // denormal
  EXPECT_EQ(bits_of(0x80010000), 0x8001);
  EXPECT_TRUE((bits_of(0x7fc00000) & 0x7fff) > 0x7f80);
}

}  // namespace
}  // namespace graphex::codegen
