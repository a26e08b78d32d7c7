// The interpreter's bodies, compiled once for the loop tests.
#include "tests/codegen/loop_reference.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace graphex::codegen::testing {
namespace {

ScalarReference floats_and_ints(double (*f)(double, double), int64_t (*i)(int64_t, int64_t)) {
  return [=](DType dtype, const std::vector<Number>& a) {
    return is_float(dtype) ? Number{f(a[0].f, a[1].f), 0} : Number{0, i(a[0].i, a[1].i)};
  };
}
ScalarReference comparison(bool (*f)(double, double), bool (*i)(int64_t, int64_t)) {
  return [=](DType dtype, const std::vector<Number>& a) {
    return Number{0, is_float(dtype) ? f(a[0].f, a[1].f) : i(a[0].i, a[1].i)};
  };
}
ScalarReference of_one(double (*f)(double), int64_t (*i)(int64_t)) {
  return [=](DType dtype, const std::vector<Number>& a) {
    return is_float(dtype) ? Number{f(a[0].f), 0} : Number{0, i(a[0].i)};
  };
}

}  // namespace

const std::map<std::string, ScalarReference>& scalar_references() {
  static const std::map<std::string, ScalarReference> table = {
      {"add", floats_and_ints([](double a, double b) { return a + b; }, [](int64_t a, int64_t b) { return a + b; })},
      {"sub", floats_and_ints([](double a, double b) { return a - b; }, [](int64_t a, int64_t b) { return a - b; })},
      {"mul", floats_and_ints([](double a, double b) { return a * b; }, [](int64_t a, int64_t b) { return a * b; })},
      {"maximum", floats_and_ints([](double a, double b) { return std::isnan(a) || a > b ? a : b; },
                                  [](int64_t a, int64_t b) { return std::max(a, b); })},
      {"minimum", floats_and_ints([](double a, double b) { return std::isnan(a) || a < b ? a : b; },
                                  [](int64_t a, int64_t b) { return std::min(a, b); })},
      {"lt", comparison([](double a, double b) { return a < b; }, [](int64_t a, int64_t b) { return a < b; })},
      {"ge", comparison([](double a, double b) { return a >= b; }, [](int64_t a, int64_t b) { return a >= b; })},
      {"eq", comparison([](double a, double b) { return a == b; }, [](int64_t a, int64_t b) { return a == b; })},
      {"neg", of_one([](double a) { return -a; }, [](int64_t a) { return -a; })},
      {"abs", of_one([](double a) { return std::fabs(a); }, [](int64_t a) { return std::abs(a); })},
      {"relu", of_one([](double a) { return a < 0 ? 0 : a; }, [](int64_t a) { return std::max<int64_t>(a, 0); })},
      {"exp", of_one([](double a) { return std::exp(a); }, nullptr)},
      {"rsqrt", of_one([](double a) { return 1 / std::sqrt(a); }, nullptr)},
      {"div", of_one(nullptr, nullptr)},
      {"where", [](DType, const std::vector<Number>& a) { return a[0].i ? a[1] : a[2]; }},
  };
  return table;
}

Number Interpreter::value(int at, const Index& index) {
  const LoopInstr& instr = p_.spec.instrs[static_cast<size_t>(at)];
  if (instr.op != LoopOp::kReduce) return compute(at, index);
  // A reduction is the same along the reduced dimensions, and dear: remember it.
  const std::pair key{at, Index(index.begin(), index.end() - p_.spec.reduced)};
  const auto found = known_.find(key);
  return found != known_.end() ? found->second : known_[key] = reduce(instr, index);
}

Number Interpreter::compute(int at, const Index& index) {
  const LoopInstr& instr = p_.spec.instrs[static_cast<size_t>(at)];
  const auto type_of = [&](int arg) { return p_.spec.instrs[static_cast<size_t>(arg)].dtype; };
  switch (instr.op) {
    case LoopOp::kLoad:
      return load_number(instr.dtype,
                         p_.tensors[static_cast<size_t>(instr.index)].bytes.data() + p_.offset(instr.index, index));
    case LoopOp::kConstant:
      return is_float(instr.dtype) ? fit(instr.dtype, {std::bit_cast<double>(instr.bits), 0}, false)
                                   : Number{0, instr.bits};
    case LoopOp::kArgument: {
      const int64_t bits = p_.arguments[static_cast<size_t>(instr.index)];
      if (is_float(instr.dtype)) return fit(instr.dtype, {std::bit_cast<double>(bits), 0}, false);
      return convert_number(DType::kI64, instr.dtype, {0, bits}, false);
    }
    case LoopOp::kIota:
      return {0, index[static_cast<size_t>(instr.index)]};
    case LoopOp::kCast:
      return convert_number(type_of(instr.args[0]), instr.dtype, value(instr.args[0], index), true);
    case LoopOp::kScalar: {
      std::vector<Number> args;
      for (const int arg : instr.args) args.push_back(value(arg, index));
      return fit(instr.dtype, scalar_references().at(instr.function)(type_of(instr.args.back()), args), false);
    }
    default:
      ADD_FAILURE() << "no value";
      return {};
  }
}

Number Interpreter::reduce(const LoopInstr& instr, const Index& index) {
  const DType from = p_.spec.instrs[static_cast<size_t>(instr.args[0])].dtype;
  const std::string& f = instr.function;
  const bool real = is_float(instr.dtype);
  const bool extreme = f == "max" || f == "min";
  double sum = f == "prod" ? 1 : 0;
  int64_t whole = f == "prod" || f == "all" ? 1 : 0;
  bool first = true;
  Index point = index;
  each_point(point, index.size() - static_cast<size_t>(p_.spec.reduced), [&] {
    const Number n = extreme ? value(instr.args[0], point)
                             : convert_number(from,
                                              f == "any" || f == "all" ? DType::kBool
                                              : real                   ? DType::kF64
                                                                       : DType::kI64,
                                              value(instr.args[0], point), false);
    if (f == "sum") sum += n.f, whole += n.i;
    if (f == "prod") sum *= n.f, whole *= n.i;
    if (f == "any") whole |= n.i;
    if (f == "all") whole &= n.i;
    if (f == "max") sum = first || std::isnan(n.f) || n.f > sum ? n.f : sum, whole = first ? n.i : std::max(whole, n.i);
    if (f == "min") sum = first || std::isnan(n.f) || n.f < sum ? n.f : sum, whole = first ? n.i : std::min(whole, n.i);
    first = false;
  });
  return fit(instr.dtype, {sum, whole}, false);
}

void Interpreter::each_point(Index& index, size_t from, const std::function<void()>& body) {
  if (from == index.size()) return body();
  for (index[from] = 0; index[from] < p_.extents[from]; ++index[from]) each_point(index, from + 1, body);
}

std::vector<std::vector<std::byte>> Interpreter::run() {
  std::vector<std::vector<std::byte>> results;
  for (const Tensor& tensor : p_.tensors) results.push_back(tensor.bytes);
  for (size_t at = 0; at < p_.spec.instrs.size(); ++at) {
    const LoopInstr& instr = p_.spec.instrs[at];
    if (instr.op != LoopOp::kStore) continue;
    const auto operand = static_cast<size_t>(instr.index);
    const DType to = p_.spec.operands[operand].dtype;
    const auto store = [&](const Index& index) {
      const DType from = p_.spec.instrs[static_cast<size_t>(instr.args[0])].dtype;
      const Number n = convert_number(from, to, value(instr.args[0], index), true);
      store_number(to, results[operand].data() + p_.offset(instr.index, index), n);
    };
    Index index(p_.extents.size(), 0);
    const auto& kinds = p_.spec.operands[operand].strides;
    const bool row = p_.spec.reduced > 0 && std::all_of(kinds.end() - p_.spec.reduced, kinds.end(),
                                                        [](auto k) { return k == StrideKind::kZero; });
    if (!row) {
      each_point(index, 0, [&] { store(index); });
      continue;
    }
    Index outer(index.begin(), index.end() - p_.spec.reduced);
    each_point(outer, 0, [&] {
      std::copy(outer.begin(), outer.end(), index.begin());
      store(index);
    });
  }
  return results;
}

}  // namespace graphex::codegen::testing
