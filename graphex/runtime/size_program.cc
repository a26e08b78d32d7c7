#include "graphex/runtime/size_program.h"

#include <algorithm>
#include <bit>

namespace graphex::runtime {
namespace {

// Symbols may be any int64, not only sizes: arithmetic wraps around.
int64_t wrapping(uint64_t value) { return static_cast<int64_t>(value); }

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrapping(-static_cast<uint64_t>(a));
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

}  // namespace

SizeId SizeProgram::intern(const Code& code) {
  const auto [it, fresh] = ids_.emplace(code, static_cast<SizeId>(code_.size()));
  if (fresh) code_.push_back(code);
  return it->second;
}

void SizeProgram::eval(std::span<const int64_t> symbols, int64_t* values) const {
  for (size_t i = 0; i < code_.size(); ++i) {
    const auto [op, a, b] = code_[i];
    switch (op) {
      case Op::kConstant:
        values[i] = a;
        break;
      case Op::kSymbol:
        values[i] = symbols[a];
        break;
      case Op::kAdd:
        values[i] = wrapping(static_cast<uint64_t>(values[a]) + static_cast<uint64_t>(values[b]));
        break;
      case Op::kMul:
        values[i] = wrapping(static_cast<uint64_t>(values[a]) * static_cast<uint64_t>(values[b]));
        break;
      case Op::kFloorDiv:
        values[i] = floor_quotient(values[a], values[b]);
        break;
      case Op::kMod:
        values[i] =
            wrapping(static_cast<uint64_t>(values[a]) -
                     static_cast<uint64_t>(floor_quotient(values[a], values[b])) * static_cast<uint64_t>(values[b]));
        break;
      case Op::kMin:
        values[i] = std::min(values[a], values[b]);
        break;
      case Op::kMax:
        values[i] = std::max(values[a], values[b]);
        break;
      case Op::kDoubleBits:
        values[i] = std::bit_cast<int64_t>(static_cast<double>(values[a]));
        break;
    }
  }
}

}  // namespace graphex::runtime
