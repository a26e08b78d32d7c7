#include "graphex/codegen/loop_emit.h"

#include "graphex/codegen/loop_check.h"
#include "graphex/codegen/loop_shapes.h"

namespace graphex::codegen {
namespace {

// Tiles are runs of points in row-major order, cut where rows end.
class PointsEmitter {
 public:
  PointsEmitter(const LoopSpec& spec, const LoopPlan& plan, LoopFrame& frame)
      : spec_(spec),
        plan_(plan),
        frame_(frame),
        b_(frame.builder()),
        values_(spec, frame.module(), b_, frame.arguments()) {}

  void run() {
    llvm::Value* first = b_.CreateMul(frame_.begin(), frame_.constant(kTilePoints));
    llvm::Value* last =
        frame_.smaller(b_.CreateMul(frame_.end(), frame_.constant(kTilePoints)), frame_.volume(0, spec_.rank));
    frame_.when(b_.CreateICmpSLT(first, last), [&] { emit_rows(first, last); });
    frame_.finish([&] {
      llvm::Value* points = frame_.volume(0, spec_.rank);
      return b_.CreateUDiv(b_.CreateAdd(points, frame_.constant(kTilePoints - 1)), frame_.constant(kTilePoints));
    });
  }

 private:
  void emit_rows(llvm::Value* first, llvm::Value* last) {
    llvm::Value *first_row = frame_.constant(0), *last_row = frame_.constant(1);
    if (plan_.outer > 0) {
      llvm::Value* length = frame_.extent(plan_.outer);
      first_row = b_.CreateUDiv(first, length);
      last_row = b_.CreateAdd(b_.CreateUDiv(b_.CreateSub(last, frame_.constant(1)), length), frame_.constant(1));
    }
    frame_.rows(first_row, last_row, [&](const LoopRow& row) { emit_row(row, first, last); });
  }

  void emit_row(const LoopRow& row, llvm::Value* first, llvm::Value* last) {
    LoopValues values(spec_.instrs.size());
    const auto base = [&](int operand) { return row.base[operand]; };
    const auto index = [&](int dim) { return row.index[dim]; };
    const LoopPoint start{base, index};
    values_.emit(plan_.row_values[0], start, values);
    for (const int store : plan_.row_stores) values_.store(store, start, values);  // rank 0
    if (spec_.rank == 0) return;
    llvm::Value* length = frame_.extent(plan_.outer);
    llvm::Value* row_start = b_.CreateMul(row.number, length);
    llvm::Value* from = frame_.larger(b_.CreateSub(first, row_start), frame_.constant(0));
    llvm::Value* to = frame_.smaller(b_.CreateSub(last, row_start), length);
    const LoopMark mark = LoopMark::make(b_.getContext(), 1);
    frame_.loop(from, to, [&](llvm::Value* i) { emit_point(row, i, mark, values); }, &mark);
  }

  void emit_point(const LoopRow& row, llvm::Value* i, const LoopMark& mark, LoopValues values) {
    const auto address = [&](int operand) { return frame_.step(operand, row.base[operand], plan_.outer, i); };
    const auto index = [&](int dim) { return dim == plan_.outer ? i : row.index[dim]; };
    const LoopPoint point{address, index, mark.group};
    values_.emit(plan_.pass_values[0], point, values);
    for (const int store : plan_.full_stores) values_.store(store, point, values);
  }

  const LoopSpec& spec_;
  const LoopPlan& plan_;
  LoopFrame& frame_;
  llvm::IRBuilder<>& b_;
  ValueEmitter values_;
};

}  // namespace

void emit_loop(const LoopSpec& spec, const std::string& entry, llvm::Module& module) {
  validate(spec);
  const LoopPlan plan = plan_loop(spec);
  LoopFrame frame(spec, plan, entry, module);
  switch (plan.shape) {
    case LoopShape::kPoints:
      return PointsEmitter(spec, plan, frame).run();
    case LoopShape::kRows:
      return emit_rows(spec, plan, frame);
    case LoopShape::kColumns:
      return emit_columns(spec, plan, frame);
  }
}

}  // namespace graphex::codegen
