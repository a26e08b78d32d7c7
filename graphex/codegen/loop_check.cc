#include "graphex/codegen/loop_check.h"

#include <algorithm>
#include <array>

#include "graphex/base/error.h"
#include "graphex/codegen/loop_plan.h"

namespace graphex::codegen {
namespace {

struct ScalarInfo {
  std::string_view name;
  int arity;
  bool predicate;
};

constexpr bool same = false, pred = true;
constexpr ScalarInfo kScalars[] = {
#define GX_SCALAR(name, arity, result) {#name, arity, result},
#include "graphex/base/scalar_ops.def"
#undef GX_SCALAR
};

const ScalarInfo* find_scalar(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kScalars), std::end(kScalars), [&](const auto& s) { return s.name == name; });
  return found == std::end(kScalars) ? nullptr : found;
}

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 6> kIntegersOnly = {"bitwise_and", "bitwise_not", "bitwise_or",
                                                           "bitwise_xor", "shift_left",  "shift_right"};
constexpr std::array<std::string_view, 25> kFloatsOnly = {
    "acos",    "asin", "atan",      "atan2", "cos",   "cosh",  "erf",  "exp",        "exp2",
    "expm1",   "gelu", "gelu_tanh", "log",   "log10", "log1p", "log2", "reciprocal", "rsqrt",
    "sigmoid", "silu", "sin",       "sinh",  "sqrt",  "tan",   "tanh"};
constexpr std::array<std::string_view, 24> kForBool = {
    "abs",  "add",     "bitwise_and", "bitwise_not", "bitwise_or",  "bitwise_xor", "eq",         "fmax",
    "fmin", "ge",      "gt",          "le",          "logical_and", "logical_not", "logical_or", "logical_xor",
    "lt",   "maximum", "minimum",     "mul",         "ne",          "relu",        "sign",       "where"};

constexpr std::array<std::string_view, 6> kReductions = {"sum", "prod", "max", "min", "any", "all"};

class Checker {
 public:
  explicit Checker(const LoopSpec& spec) : spec_(spec) {}

  void run() {
    check_operands();
    for (at_ = 0; at_ < static_cast<int>(spec_.instrs.size()); ++at_) check(spec_.instrs[at_]);
    check_stores();
  }

 private:
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(ErrorKind::kInternal, "malformed loop, instruction ", at_, ": ", parts...);
  }

  void check_operands() const {
    if (spec_.rank < 0 || spec_.reduced < 0 || spec_.reduced > spec_.rank || spec_.arguments < 0)
      fail(ErrorKind::kInternal, "malformed loop: rank ", spec_.rank, " with ", spec_.reduced, " reduced dimensions");
    for (size_t i = 0; i < spec_.operands.size(); ++i)
      if (static_cast<int>(spec_.operands[i].strides.size()) != spec_.rank)
        fail(ErrorKind::kInternal, "malformed loop: operand ", i, " has ", spec_.operands[i].strides.size(),
             " strides for rank ", spec_.rank);
  }

  DType arg_type(const LoopInstr& instr, size_t i) const { return spec_.instrs[instr.args[i]].dtype; }

  void check(const LoopInstr& instr) const {
    for (const int arg : instr.args) {
      if (arg < 0 || arg >= at_) bad("argument ", arg, " is not an earlier instruction");
      if (spec_.instrs[arg].op == LoopOp::kStore) bad("argument ", arg, " is a store");
    }
    switch (instr.op) {
      case LoopOp::kLoad:
      case LoopOp::kStore:
        return check_memory(instr);
      case LoopOp::kConstant:
        return expect_args(instr, 0);
      case LoopOp::kArgument:
        expect_args(instr, 0);
        if (instr.index < 0 || instr.index >= spec_.arguments) bad("there is no run-time scalar ", instr.index);
        return;
      case LoopOp::kIota:
        expect_args(instr, 0);
        if (instr.dtype != DType::kI64) bad("an index has dtype i64, not ", name_of(instr.dtype));
        if (instr.index < 0 || instr.index >= spec_.rank) bad("there is no dimension ", instr.index);
        return;
      case LoopOp::kScalar:
        return check_scalar(instr);
      case LoopOp::kCast:
        return expect_args(instr, 1);
      case LoopOp::kReduce:
        return check_reduce(instr);
    }
    bad("unknown operation ", static_cast<int>(instr.op));
  }

  void expect_args(const LoopInstr& instr, size_t count) const {
    if (instr.args.size() != count) bad("expected ", count, " arguments, got ", instr.args.size());
  }

  void check_memory(const LoopInstr& instr) const {
    const bool store = instr.op == LoopOp::kStore;
    expect_args(instr, store ? 1 : 0);
    if (instr.index < 0 || instr.index >= static_cast<int>(spec_.operands.size()))
      bad("there is no operand ", instr.index);
    const LoopOperand& operand = spec_.operands[instr.index];
    if (operand.is_output != store) bad("operand ", instr.index, store ? " is an input" : " is an output");
    if (!store && operand.dtype != instr.dtype)
      bad("operand ", instr.index, " has dtype ", name_of(operand.dtype), ", not ", name_of(instr.dtype));
  }

  void check_scalar(const LoopInstr& instr) const {
    const ScalarInfo* info = find_scalar(instr.function);
    if (!info) bad("there is no scalar function '", instr.function, "'");
    expect_args(instr, info->arity);
    const DType compute = register_type(arg_type(instr, instr.args.size() - 1));
    const bool where = instr.function == "where";
    if (where && arg_type(instr, 0) != DType::kBool)
      bad("the condition of where has dtype ", name_of(arg_type(instr, 0)));
    for (size_t i = where; i < instr.args.size(); ++i)
      if (register_type(arg_type(instr, i)) != compute)
        bad("'", instr.function, "' of mixed dtypes ", name_of(arg_type(instr, i)), " and ", name_of(compute));
    if (!scalar_available(instr.function, compute)) bad("'", instr.function, "' is not defined for ", name_of(compute));
    const DType result = info->predicate ? DType::kBool : compute;
    if (register_type(instr.dtype) != result)
      bad("'", instr.function, "' gives ", name_of(result), ", not ", name_of(instr.dtype));
  }

  void check_reduce(const LoopInstr& instr) const {
    expect_args(instr, 1);
    if (spec_.reduced == 0) bad("a reduction in a loop without reduced dimensions");
    if (!contains(kReductions, instr.function)) bad("there is no reduction '", instr.function, "'");
    const DType arg = arg_type(instr, 0);
    const bool truth = instr.function == "any" || instr.function == "all";
    const bool extreme = instr.function == "max" || instr.function == "min";
    if (truth && instr.dtype != DType::kBool) bad("'", instr.function, "' gives bool, not ", name_of(instr.dtype));
    if (extreme && register_type(instr.dtype) != register_type(arg))
      bad("'", instr.function, "' of ", name_of(arg), " gives ", name_of(instr.dtype));
    if (!truth && !extreme && (instr.dtype == DType::kBool || (is_float(arg) && !is_float(instr.dtype))))
      bad("'", instr.function, "' of ", name_of(arg), " can't give ", name_of(instr.dtype));
  }

  void check_stores() {
    const LoopPlan plan = plan_loop(spec_);
    for (at_ = 0; at_ < static_cast<int>(spec_.instrs.size()); ++at_) {
      const LoopInstr& instr = spec_.instrs[at_];
      if (instr.op == LoopOp::kStore && plan.full[instr.args[0]] && spec_.reduced > 0 && !varies(spec_, instr.index))
        bad("a full value into a row operand");
    }
  }

  const LoopSpec& spec_;
  int at_ = 0;
};

}  // namespace

bool scalar_available(std::string_view function, DType compute) {
  if (!find_scalar(function)) return false;
  compute = register_type(compute);
  if (compute == DType::kBool) return contains(kForBool, function);
  if (is_float(compute)) return !contains(kIntegersOnly, function);
  return !contains(kFloatsOnly, function);
}

int scalar_arity(std::string_view function) {
  const ScalarInfo* info = find_scalar(function);
  return info ? info->arity : 0;
}

bool scalar_is_predicate(std::string_view function) {
  const ScalarInfo* info = find_scalar(function);
  return info && info->predicate;
}

void validate(const LoopSpec& spec) { Checker(spec).run(); }

}  // namespace graphex::codegen
