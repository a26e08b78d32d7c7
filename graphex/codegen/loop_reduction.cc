#include <map>

#include "graphex/codegen/loop_shapes.h"

namespace graphex::codegen {

Reduction::Reduction(const LoopSpec& spec, int instr, ValueEmitter& values, llvm::IRBuilder<>& builder)
    : instr_(instr), values_(values), b_(builder) {
  static const std::map<std::string, Kind> kinds = {{"sum", Kind::kSum}, {"prod", Kind::kProduct}, {"max", Kind::kMax},
                                                    {"min", Kind::kMin}, {"any", Kind::kAny},      {"all", Kind::kAll}};
  const LoopInstr& reduce = spec.instrs[instr];
  kind_ = kinds.at(reduce.function);
  arg_ = register_type(spec.instrs[reduce.args[0]].dtype);
  result_ = register_type(reduce.dtype);
  blocked_ = kind_ == Kind::kSum || kind_ == Kind::kProduct;
  accumulator_ = total_ = result_;
  if (!blocked_) return;
  accumulator_ = is_float(result_) ? result_ : DType::kI64;
  total_ = is_float(result_) ? DType::kF64 : DType::kI64;
}

llvm::Type* Reduction::accumulator_type() const { return values_.register_ir_type(accumulator_); }
llvm::Type* Reduction::total_type() const { return values_.register_ir_type(total_); }

llvm::Value* Reduction::start(DType dtype) const {
  llvm::Type* type = values_.register_ir_type(dtype);
  const bool low = kind_ == Kind::kMax, high = kind_ == Kind::kMin;
  if (is_float(dtype)) {
    if (low || high) return llvm::ConstantFP::getInfinity(type, low);
    return llvm::ConstantFP::get(type, kind_ == Kind::kProduct ? 1 : 0);
  }
  if (dtype == DType::kBool) return b_.getInt1(kind_ == Kind::kAll || high);
  const unsigned bits = type->getIntegerBitWidth();
  if (dtype == DType::kU8 && (low || high)) return b_.getInt8(low ? 0 : 255);
  if (low) return b_.getInt(llvm::APInt::getSignedMinValue(bits));
  if (high) return b_.getInt(llvm::APInt::getSignedMaxValue(bits));
  return llvm::ConstantInt::get(type, kind_ == Kind::kProduct ? 1 : 0);
}

// The order of additions is the vectoriser's, the same for every call of the code; a zero's sign is lost in max and
// min.
llvm::Value* Reduction::combine_floats(llvm::Value* a, llvm::Value* b) const {
  llvm::IRBuilder<>::FastMathFlagGuard guard(b_);
  llvm::FastMathFlags flags;
  if (blocked_) flags.setAllowReassoc();
  if (!blocked_) flags.setNoSignedZeros();
  b_.setFastMathFlags(flags);
  switch (kind_) {
    case Kind::kSum:
      return b_.CreateFAdd(a, b);
    case Kind::kProduct:
      return b_.CreateFMul(a, b);
    case Kind::kMax:
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, a, b);
    default:
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, a, b);
  }
}

llvm::Value* Reduction::combine(llvm::Value* a, llvm::Value* b, DType dtype) const {
  if (is_float(dtype)) return combine_floats(a, b);
  const bool narrow = dtype == DType::kBool, plain = dtype == DType::kU8;
  switch (kind_) {
    case Kind::kSum:
      return b_.CreateAdd(a, b);
    case Kind::kProduct:
      return b_.CreateMul(a, b);
    case Kind::kAny:
      return b_.CreateOr(a, b);
    case Kind::kAll:
      return b_.CreateAnd(a, b);
    case Kind::kMax:
      if (narrow) return b_.CreateOr(a, b);
      return b_.CreateBinaryIntrinsic(plain ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, a, b);
    case Kind::kMin:
      if (narrow) return b_.CreateAnd(a, b);
      return b_.CreateBinaryIntrinsic(plain ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, a, b);
  }
  return nullptr;
}

llvm::Value* Reduction::accumulate(llvm::Value* accumulator, llvm::Value* arg) const {
  return combine(accumulator, values_.convert(arg, arg_, accumulator_), accumulator_);
}
llvm::Value* Reduction::add_block(llvm::Value* total, llvm::Value* accumulator) const {
  return combine(total, values_.convert(accumulator, accumulator_, total_), total_);
}
llvm::Value* Reduction::result(llvm::Value* total) const { return values_.convert(total, total_, result_); }

}  // namespace graphex::codegen
