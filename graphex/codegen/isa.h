// The levels of x86-64 that kernels are written for, and which of them this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace graphex::codegen {

enum class Isa : uint8_t {
  kGeneric,     // x86-64-v2
  kAvx2,        // x86-64-v3
  kAvx512,      // x86-64-v4 with AVX512-VNNI: Cascade Lake, Ice Lake
  kAvx512Bf16,  // and AVX512-BF16: Cooper Lake, Sapphire Rapids, Zen 4
};
inline constexpr Isa kIsas[] = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

// "generic", "avx2", "avx512", "avx512bf16".
std::string_view name_of(Isa isa);
// The cap that GRAPHEX_ISA's text asks for: a level, or none for "native" and "". Anything else is an error.
std::optional<Isa> parse_isa(std::string_view text);
// The highest level that this machine has; an error if it is below x86-64-v2.
Isa host_isa();
// The level that a compiler without options uses: the host's, capped by GRAPHEX_ISA. An error if the host lacks the
// cap.
Isa detect_isa();

}  // namespace graphex::codegen
