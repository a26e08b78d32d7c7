// What a generated loop computes: an iteration space, operands with layouts, and straight-line code per element.
//
// A spec is structure only: sizes, strides other than 0 and 1, and run-time scalars are arguments, so one kernel serves
// every shape of the same structure and equal specs (by `key`) share machine code.
//
// Iteration space: `rank` dimensions, outermost first; the last `reduced` of them are reduced. A value is *full* (one
// per point of the space) or *row* (one per point of the outer dimensions). A load is row if its strides over all
// reduced dimensions are kZero; a reduction is row; any other instruction is full if one of its arguments is. Full
// values that depend on a reduction are computed in a later pass over the reduced dimensions; what they need of earlier
// passes is computed again. All full stores happen in the last pass, after the loads of the same point: an output may
// therefore occupy the memory of an operand with the same layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graphex/base/dtype.h"

namespace graphex::codegen {

enum class StrideKind : uint8_t { kZero, kUnit, kArgument };

struct LoopOperand {
  DType dtype;
  bool is_output = false;
  std::vector<StrideKind> strides;  // one per dimension of the space, in elements
};

enum class LoopOp : uint8_t {
  kLoad,      // operand's element at this point
  kConstant,  // `bits`: the pattern of a double for float dtypes, an int64 otherwise
  kArgument,  // run-time scalar number `index`: an int64, or the bit pattern of a double when dtype is a float
  kIota,      // this point's index along dimension `index`, as i64
  kScalar,    // `function` of args; its name is that of a function in kernels/scalar ("add", "exp", "where", ...)
  kCast,      // args[0] converted to dtype; reduced floats are rounded to nearest even
  kReduce,    // `function` ("sum", "prod", "max", "min", "any", "all") of args[0] over the reduced dimensions
  kStore,     // args[0] into operand `index` (converted to its dtype); the only instruction without a result
};

struct LoopInstr {
  LoopOp op;
  DType dtype = DType::kF32;   // of the result; kF16 and kBF16 values live in f32 registers
  std::string function = {};   // kScalar, kReduce
  std::vector<int> args = {};  // indices of earlier instructions
  int index = 0;               // operand (kLoad, kStore), dimension (kIota) or argument number (kArgument)
  int64_t bits = 0;            // kConstant
};

// Pointers of the kernel: operands in order. Sizes of the kernel: `rank` extents; then for each operand in order and
// each of its dimensions in order the strides that are kArgument; then `arguments` run-time scalars.
struct LoopSpec {
  int rank = 0;
  int reduced = 0;
  int arguments = 0;
  std::vector<LoopOperand> operands;
  std::vector<LoopInstr> instrs;

  // Canonical text: equal keys mean equal kernels. Readable, used in dumps and as cache key.
  std::string key() const;
};

}  // namespace graphex::codegen
