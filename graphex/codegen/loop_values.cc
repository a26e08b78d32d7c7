#include "graphex/codegen/loop_values.h"

#include <bit>
#include <cmath>

#include "graphex/base/error.h"

namespace graphex::codegen {
namespace {

bool is_signed(DType dtype) { return dtype != DType::kBool && dtype != DType::kU8; }

}  // namespace

llvm::Type* ValueEmitter::register_ir_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return b_.getInt1Ty();
    case DType::kU8:
    case DType::kI8:
      return b_.getInt8Ty();
    case DType::kI16:
      return b_.getInt16Ty();
    case DType::kI32:
      return b_.getInt32Ty();
    case DType::kI64:
      return b_.getInt64Ty();
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return b_.getFloatTy();
    case DType::kF64:
      return b_.getDoubleTy();
  }
  fail(ErrorKind::kInternal, "unknown dtype ", static_cast<int>(dtype));
}

llvm::Type* ValueEmitter::storage_ir_type(DType dtype) {
  if (dtype == DType::kBool) return b_.getInt8Ty();
  return is_reduced_float(dtype) ? b_.getInt16Ty() : register_ir_type(dtype);
}

// The inliner hands the call's access group on to loads of tables within the function.
llvm::Value* ValueEmitter::call(const std::string& name, llvm::Type* result, llvm::ArrayRef<llvm::Value*> args) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* arg : args) types.push_back(arg->getType());
  auto* call = b_.CreateCall(module_.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false)), args);
  if (group_) call->setMetadata(llvm::LLVMContext::MD_access_group, group_);
  return call;
}

llvm::Value* ValueEmitter::narrowed(llvm::Value* value, DType to) {
  return call(to == DType::kBF16 ? "gx_to_bf16" : "gx_to_f16", b_.getInt16Ty(), {value});
}

llvm::Value* ValueEmitter::widened(llvm::Value* bits, DType from) {
  return call(from == DType::kBF16 ? "gx_from_bf16" : "gx_from_f16", b_.getFloatTy(), {bits});
}

// As x86 and so PyTorch: through 64 bits for what a 32-bit conversion can't hold, then cut off.
llvm::Value* ValueEmitter::float_to_int(llvm::Value* value, DType to) {
  const bool wide = to == DType::kI64 || (value->getType()->isDoubleTy() && to != DType::kI32);
  llvm::Value* whole = b_.CreateFreeze(b_.CreateFPToSI(value, wide ? b_.getInt64Ty() : b_.getInt32Ty()));
  return b_.CreateTrunc(whole, register_ir_type(to));
}

// A bf16 or f16 result isn't rounded here: see emit_cast and store.
llvm::Value* ValueEmitter::convert(llvm::Value* value, DType from, DType to) {
  from = register_type(from);
  to = register_type(to);
  llvm::Type* type = register_ir_type(to);
  if (from == to) return value;
  if (to == DType::kBool) {
    return is_float(from) ? b_.CreateFCmpUNE(value, llvm::ConstantFP::get(value->getType(), 0))
                          : b_.CreateICmpNE(value, llvm::ConstantInt::get(value->getType(), 0));
  }
  if (is_float(from)) return is_float(to) ? b_.CreateFPCast(value, type) : float_to_int(value, to);
  if (is_float(to)) return is_signed(from) ? b_.CreateSIToFP(value, type) : b_.CreateUIToFP(value, type);
  return b_.CreateIntCast(value, type, is_signed(from));
}

llvm::Value* ValueEmitter::constant(DType dtype, int64_t bits) {
  llvm::Type* type = register_ir_type(dtype);
  if (is_float(dtype)) {
    const auto number = std::bit_cast<double>(bits);
    return type->isFloatTy() ? llvm::ConstantFP::get(type->getContext(), llvm::APFloat(static_cast<float>(number)))
                             : llvm::ConstantFP::get(type->getContext(), llvm::APFloat(number));
  }
  return dtype == DType::kBool ? b_.getInt1(bits != 0)
                               : llvm::ConstantInt::get(type, static_cast<uint64_t>(bits), true);
}

llvm::Value* ValueEmitter::argument(DType dtype, llvm::Value* bits) {
  if (is_float(dtype)) return b_.CreateFPCast(b_.CreateBitCast(bits, b_.getDoubleTy()), register_ir_type(dtype));
  return convert(bits, DType::kI64, dtype);
}

void ValueEmitter::emit_load(int at, const LoopPoint& point, LoopValues& values) {
  const LoopInstr& instr = spec_.instrs[at];
  auto* load = b_.CreateAlignedLoad(storage_ir_type(instr.dtype), point.address(instr.index),
                                    llvm::Align(static_cast<uint64_t>(size_of(instr.dtype))));
  if (group_) load->setMetadata(llvm::LLVMContext::MD_access_group, group_);
  values.value[at] = load;
  if (instr.dtype == DType::kBool) values.value[at] = b_.CreateICmpNE(load, b_.getInt8(0));
  if (!is_reduced_float(instr.dtype)) return;
  values.narrow[at] = load;
  values.value[at] = widened(load, instr.dtype);
}

void ValueEmitter::emit_cast(int at, LoopValues& values) {
  const LoopInstr& instr = spec_.instrs[at];
  const int arg = instr.args[0];
  const DType from = spec_.instrs[arg].dtype;
  values.value[at] = convert(values.value[arg], from, instr.dtype);
  if (!is_reduced_float(instr.dtype)) return;
  const bool exact = from == instr.dtype && values.narrow[arg];
  values.narrow[at] = exact ? values.narrow[arg] : narrowed(values.value[at], instr.dtype);
  values.value[at] = exact ? values.value[arg] : widened(values.narrow[at], instr.dtype);
}

// The power for exponents with a short way to every value of C's pow, or null. A root is none: pow(-0, 0.5) is 0 and
// pow(-inf, 0.5) is inf.
llvm::Value* ValueEmitter::power_by_constant(const LoopInstr& instr, llvm::Value* base) {
  const LoopInstr& exponent = spec_.instrs[instr.args[1]];
  if (exponent.op != LoopOp::kConstant) return nullptr;
  const bool real = is_float(exponent.dtype);
  const double value = real ? std::bit_cast<double>(exponent.bits) : static_cast<double>(exponent.bits);
  const auto times = [&](llvm::Value* a, llvm::Value* b) { return real ? b_.CreateFMul(a, b) : b_.CreateMul(a, b); };
  if (value == 1) return base;
  if (value == 2) return times(base, base);
  if (value == 3) return times(times(base, base), base);
  if (!real) return nullptr;
  llvm::Value* one = llvm::ConstantFP::get(base->getType(), 1);
  if (value == -1) return b_.CreateFDiv(one, base);
  if (value == -2) return b_.CreateFDiv(one, times(base, base));
  return nullptr;
}

llvm::Value* ValueEmitter::emit_scalar(const LoopInstr& instr, const LoopValues& values) {
  std::vector<llvm::Value*> args;
  for (const int arg : instr.args) args.push_back(values.value[arg]);
  const DType compute = register_type(spec_.instrs[instr.args.back()].dtype);
  if (instr.function == "pow")
    if (llvm::Value* power = power_by_constant(instr, args[0])) return power;
  const bool predicate = scalar_is_predicate(instr.function);
  return call("gx_" + instr.function + "_" + std::string(name_of(compute)),
              predicate ? b_.getInt1Ty() : register_ir_type(compute), args);
}

void ValueEmitter::emit_one(int at, const LoopPoint& point, LoopValues& values) {
  const LoopInstr& instr = spec_.instrs[at];
  switch (instr.op) {
    case LoopOp::kLoad:
      return emit_load(at, point, values);
    case LoopOp::kCast:
      return emit_cast(at, values);
    case LoopOp::kConstant:
      values.value[at] = constant(instr.dtype, instr.bits);
      return;
    case LoopOp::kArgument:
      values.value[at] = argument(instr.dtype, arguments_[instr.index]);
      return;
    case LoopOp::kIota:
      values.value[at] = point.index(instr.index);
      return;
    case LoopOp::kScalar:
      values.value[at] = emit_scalar(instr, values);
      return;
    case LoopOp::kReduce:
    case LoopOp::kStore:
      break;
  }
  fail(ErrorKind::kInternal, "instruction ", at, " has no value here");
}

void ValueEmitter::emit(const std::vector<int>& instrs, const LoopPoint& point, LoopValues& values) {
  group_ = point.group;
  for (const int at : instrs) emit_one(at, point, values);
}

void ValueEmitter::store(int instr, const LoopPoint& point, const LoopValues& values) {
  group_ = point.group;
  const int operand = spec_.instrs[instr].index, arg = spec_.instrs[instr].args[0];
  const DType from = spec_.instrs[arg].dtype, to = spec_.operands[operand].dtype;
  llvm::Value* value = values.narrow[arg];
  if (!value || from != to) {
    value = convert(values.value[arg], from, to);
    if (to == DType::kBool) value = b_.CreateZExt(value, b_.getInt8Ty());
    if (is_reduced_float(to)) value = narrowed(value, to);
  }
  auto* store = b_.CreateAlignedStore(value, point.address(operand), llvm::Align(static_cast<uint64_t>(size_of(to))));
  if (group_) store->setMetadata(llvm::LLVMContext::MD_access_group, group_);
}

}  // namespace graphex::codegen
