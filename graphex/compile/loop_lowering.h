// A loop unit as a codegen::LoopSpec and the operands that it reads and writes.
#pragma once

#include <memory>

#include "graphex/codegen/loop_spec.h"
#include "graphex/compile/unit.h"

namespace graphex::compile {

struct LoopAccess {
  ir::Value* value;               // read at its own layout, or written
  std::vector<ir::Expr> strides;  // along the loop's dimensions, before merging
  bool written;
};

struct LoweredLoop {
  std::shared_ptr<codegen::LoopSpec> spec;
  std::vector<LoopAccess> operands;  // in the order of the spec's
  std::vector<ir::Expr> sizes;       // the kernel's sizes: extents, argument strides
  // Run-time scalars that follow `sizes`: an integer, or the bits of the double nearest to it.
  std::vector<std::pair<ir::Expr, bool>> scalars;
};

struct LoopOptions {
  bool emulate_precision_casts = false;  // round each bf16/f16 intermediate as eager would
};

LoweredLoop lower_loop(const Unit& unit, const LoopOptions& options);
// The loop that copies `shape` elements of one dtype from one layout to another (operand 0 is read, operand 1 written).
LoweredLoop copy_loop(DType dtype, const std::vector<ir::Expr>& shape, const std::vector<ir::Expr>& from,
                      const std::vector<ir::Expr>& to);

}  // namespace graphex::compile
