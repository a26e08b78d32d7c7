// The skeleton of a generated kernel: its two functions, its arguments as values, and loops. LLVM only.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <string>
#include <vector>

#include "graphex/codegen/loop_plan.h"

namespace graphex::codegen {

using IrValues = llvm::SmallVector<llvm::Value*, 4>;

// Promises to the vectoriser about an innermost loop.
struct LoopMark {
  llvm::MDNode* group = nullptr;  // its memory accesses: each iteration touches only its own elements
  int interleave = 0;             // vectors per step; 0: LLVM's choice
  static LoopMark make(llvm::LLVMContext& context, int interleave);
};

// A row of the space: the operands' elements at its start and its position.
struct LoopRow {
  llvm::Value* number = nullptr;
  IrValues base;
  IrValues index;  // per dimension; null within the row
};

class LoopFrame {
 public:
  LoopFrame(const LoopSpec& spec, const LoopPlan& plan, const std::string& entry, llvm::Module& module);

  llvm::IRBuilder<>& builder() { return b_; }
  llvm::Module& module() { return module_; }
  llvm::Value* begin() const { return begin_; }
  llvm::Value* end() const { return end_; }
  llvm::Value* extent(int dim) const { return extents_[dim]; }
  const std::vector<llvm::Value*>& arguments() const { return arguments_; }
  llvm::Value* constant(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  // The product of the extents of dimensions [first, last).
  llvm::Value* volume(int first, int last);
  llvm::Value* smaller(llvm::Value* a, llvm::Value* b);
  llvm::Value* larger(llvm::Value* a, llvm::Value* b);

  // pointer moved by `index` steps along dimension `dim` of operand `operand`.
  llvm::Value* step(int operand, llvm::Value* pointer, int dim, llvm::Value* index);
  // This worker's scratch memory. Only code that calls this reads the worker.
  llvm::Value* worker_scratch();
  // Stack memory of the function.
  llvm::Value* scratch(llvm::Type* type, int64_t count);

  // for (i = first; i < last; i += by) carried = body(i, carried); returns what is carried at the end.
  using Body = llvm::function_ref<IrValues(llvm::Value*, const IrValues&)>;
  IrValues loop(llvm::Value* first, llvm::Value* last, int64_t by, const IrValues& carried, Body body,
                const LoopMark* mark = nullptr);
  void loop(llvm::Value* first, llvm::Value* last, llvm::function_ref<void(llvm::Value*)> body,
            const LoopMark* mark = nullptr);
  // for (i = first; i < last;) i = body(i);
  void leap(llvm::Value* first, llvm::Value* last, llvm::function_ref<llvm::Value*(llvm::Value*)> body);
  void when(llvm::Value* condition, llvm::function_ref<void()> body);
  // Rows [first, last) in row-major order of the outer dimensions.
  void rows(llvm::Value* first, llvm::Value* last, llvm::function_ref<void(const LoopRow&)> body);
  // Runs of up to `most` rows that differ only in the last outer dimension: body(row at its start, rows).
  void row_blocks(llvm::Value* first, llvm::Value* last, int64_t most,
                  llvm::function_ref<void(const LoopRow&, llvm::Value*)> body);

  // Ends the kernel, and defines entry_tiles as what `count` computes.
  void finish(llvm::function_ref<llvm::Value*()> count);

 private:
  void open(llvm::Function* function, llvm::Value* sizes);
  void load_operands(llvm::Value* pointers);
  LoopRow row_at(llvm::Value* number, llvm::Value* last, llvm::Value** run);
  void advance(LoopRow& row, llvm::Value* steps);

  const LoopSpec& spec_;
  const LoopPlan& plan_;
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  const std::string entry_;
  llvm::Value* begin_ = nullptr;
  llvm::Value* end_ = nullptr;
  std::vector<llvm::Value*> extents_, pointers_, arguments_;
  std::vector<std::vector<llvm::Value*>> strides_;  // null: 0
};

}  // namespace graphex::codegen
