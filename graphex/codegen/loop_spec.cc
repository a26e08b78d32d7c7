#include "graphex/codegen/loop_spec.h"

namespace graphex::codegen {
namespace {

// "f32[*10]" : a letter for each stride; outputs are marked with "=".
std::string operand_text(const LoopOperand& operand) {
  std::string text(name_of(operand.dtype));
  text += operand.is_output ? "=[" : "[";
  for (const StrideKind kind : operand.strides)
    text += kind == StrideKind::kZero ? '0' : kind == StrideKind::kUnit ? '1' : '*';
  return text + "]";
}

std::string instr_text(const LoopInstr& instr) {
  switch (instr.op) {
    case LoopOp::kLoad:
      return "load " + std::to_string(instr.index);
    case LoopOp::kConstant:
      return "const " + std::to_string(instr.bits);
    case LoopOp::kArgument:
      return "arg " + std::to_string(instr.index);
    case LoopOp::kIota:
      return "iota " + std::to_string(instr.index);
    case LoopOp::kScalar:
      return instr.function;
    case LoopOp::kCast:
      return "cast";
    case LoopOp::kReduce:
      return "reduce_" + instr.function;
    case LoopOp::kStore:
      return "store " + std::to_string(instr.index);
  }
  return "?";
}

}  // namespace

std::string LoopSpec::key() const {
  std::string text = "rank " + std::to_string(rank) + " reduced " + std::to_string(reduced) + " arguments " +
                     std::to_string(arguments) + " operands";
  for (const LoopOperand& operand : operands) text += " " + operand_text(operand);
  for (size_t i = 0; i < instrs.size(); ++i) {
    const LoopInstr& instr = instrs[i];
    text += "; %" + std::to_string(i) + ":" + std::string(name_of(instr.dtype)) + " = " + instr_text(instr);
    for (const int arg : instr.args) text += " %" + std::to_string(arg);
  }
  return text;
}

}  // namespace graphex::codegen
