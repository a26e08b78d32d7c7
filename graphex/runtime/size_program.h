// Every integer that a Program needs at run time (extents, strides, offsets, bytes), as straight-line code over
// symbols.
//
// runtime knows no ir::Expr; compile translates. Value i is operation i's result; evaluating all of them costs a few
// nanoseconds each and happens only when a symbol has changed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace graphex::runtime {

using SizeId = int32_t;

class SizeProgram {
 public:
  enum class Op : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax, kDoubleBits };

  // Equal operations share one id.
  SizeId constant(int64_t value) { return intern({Op::kConstant, value, 0}); }
  SizeId symbol(int index) { return intern({Op::kSymbol, index, 0}); }
  SizeId apply(Op op, SizeId a, SizeId b) { return intern({op, a, b}); }

  // The bit pattern of the double nearest to a.
  SizeId double_bits(SizeId a) { return intern({Op::kDoubleBits, a, 0}); }

  size_t size() const { return code_.size(); }
  // Writes size() values. A division by zero gives 0.
  void eval(std::span<const int64_t> symbols, int64_t* values) const;

 private:
  using Code = std::tuple<Op, int64_t, int64_t>;
  SizeId intern(const Code& code);

  std::vector<Code> code_;
  std::map<Code, SizeId> ids_;
};

}  // namespace graphex::runtime
