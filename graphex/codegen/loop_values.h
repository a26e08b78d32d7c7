// The straight-line part of a generated loop: LLVM values of the spec's instructions at one point. LLVM only.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <vector>

#include "graphex/codegen/loop_check.h"

namespace graphex::codegen {

// What is known of a spec's instructions at some point of the code. Copied where a scope opens.
struct LoopValues {
  explicit LoopValues(size_t count) : value(count), narrow(count) {}
  std::vector<llvm::Value*> value;
  std::vector<llvm::Value*> narrow;  // the 16 bits of a value that is exactly a bf16 or f16
};

// Where a value is computed. Refers to callables that must outlive it.
struct LoopPoint {
  llvm::function_ref<llvm::Value*(int)> address;  // of an operand's element
  llvm::function_ref<llvm::Value*(int)> index;    // along a dimension
  llvm::MDNode* group = nullptr;                  // access group of the innermost loop, if in one
};

class ValueEmitter {
 public:
  ValueEmitter(const LoopSpec& spec, llvm::Module& module, llvm::IRBuilder<>& builder,
               std::vector<llvm::Value*> arguments)
      : spec_(spec), module_(module), b_(builder), arguments_(std::move(arguments)) {}

  // Everything but kStore and kReduce.
  void emit(const std::vector<int>& instrs, const LoopPoint& point, LoopValues& values);
  void store(int instr, const LoopPoint& point, const LoopValues& values);
  llvm::Value* convert(llvm::Value* value, DType from, DType to);
  llvm::Type* register_ir_type(DType dtype);
  llvm::Type* storage_ir_type(DType dtype);
  llvm::Value* call(const std::string& name, llvm::Type* result, llvm::ArrayRef<llvm::Value*> args);

 private:
  void emit_one(int at, const LoopPoint& point, LoopValues& values);
  void emit_load(int at, const LoopPoint& point, LoopValues& values);
  void emit_cast(int at, LoopValues& values);
  llvm::Value* emit_scalar(const LoopInstr& instr, const LoopValues& values);
  llvm::Value* power_by_constant(const LoopInstr& instr, llvm::Value* base);
  llvm::Value* constant(DType dtype, int64_t bits);
  llvm::Value* argument(DType dtype, llvm::Value* bits);
  llvm::Value* float_to_int(llvm::Value* value, DType to);
  llvm::Value* narrowed(llvm::Value* value, DType to);
  llvm::Value* widened(llvm::Value* bits, DType from);

  const LoopSpec& spec_;
  llvm::Module& module_;
  llvm::IRBuilder<>& b_;
  std::vector<llvm::Value*> arguments_;
  llvm::MDNode* group_ = nullptr;
};

}  // namespace graphex::codegen
