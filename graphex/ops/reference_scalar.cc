// Elementwise operators on one element. Floats compute in double: for f32 the caller rounds once.
#include <cmath>
#include <map>

#include "graphex/ops/checks.h"
#include "graphex/ops/reference.h"

namespace graphex::ops::reference {
namespace {

using Unary = double (*)(double);
using Binary = double (*)(double, double);
using IntUnary = int64_t (*)(int64_t);
using IntBinary = int64_t (*)(int64_t, int64_t);

double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

double remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_divide(double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

const std::map<std::string_view, Unary>& float_unary() {
  static const std::map<std::string_view, Unary> kTable = {
      {"abs", [](double x) { return std::fabs(x); }},
      {"acos", [](double x) { return std::acos(x); }},
      {"asin", [](double x) { return std::asin(x); }},
      {"atan", [](double x) { return std::atan(x); }},
      {"ceil", [](double x) { return std::ceil(x); }},
      {"cos", [](double x) { return std::cos(x); }},
      {"cosh", [](double x) { return std::cosh(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"exp", [](double x) { return std::exp(x); }},
      {"exp2", [](double x) { return std::exp2(x); }},
      {"expm1", [](double x) { return std::expm1(x); }},
      {"floor", [](double x) { return std::floor(x); }},
      {"gelu", [](double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }},
      {"gelu_tanh", gelu_tanh},
      {"log", [](double x) { return std::log(x); }},
      {"log10", [](double x) { return std::log10(x); }},
      {"log1p", [](double x) { return std::log1p(x); }},
      {"log2", [](double x) { return std::log2(x); }},
      {"neg", [](double x) { return -x; }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"relu", [](double x) { return x < 0 ? 0 : x; }},
      {"round", [](double x) { return std::nearbyint(x); }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"sign", [](double x) { return static_cast<double>((x > 0) - (x < 0)); }},
      {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
      {"sin", [](double x) { return std::sin(x); }},
      {"sinh", [](double x) { return std::sinh(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"tan", [](double x) { return std::tan(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"trunc", [](double x) { return std::trunc(x); }},
  };
  return kTable;
}

const std::map<std::string_view, Binary>& float_binary() {
  static const std::map<std::string_view, Binary> kTable = {
      {"add", [](double a, double b) { return a + b; }},
      {"atan2", [](double a, double b) { return std::atan2(a, b); }},
      {"div", [](double a, double b) { return a / b; }},
      {"floor_divide", floor_divide},
      {"fmax", [](double a, double b) { return std::isnan(b) || a >= b ? a : b; }},
      {"fmin", [](double a, double b) { return std::isnan(b) || a <= b ? a : b; }},
      {"fmod", [](double a, double b) { return std::fmod(a, b); }},
      {"maximum", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b
                                                  : a > b                        ? a
                                                                                 : b; }},
      {"minimum", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b
                                                  : a < b                        ? a
                                                                                 : b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"pow", [](double a, double b) { return std::pow(a, b); }},
      {"remainder", remainder},
      {"sub", [](double a, double b) { return a - b; }},
      {"trunc_divide", [](double a, double b) { return std::trunc(a / b); }},
  };
  return kTable;
}

// Integers: the 64-bit result is wrapped to the dtype by the caller. A divisor of 0 gives 0; graphs must not have one.
int64_t wrapping(uint64_t value) { return static_cast<int64_t>(value); }
int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? wrapping(0 - static_cast<uint64_t>(a)) : a / b; }
int64_t rest(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
bool turns(int64_t a, int64_t b) { return rest(a, b) != 0 && (rest(a, b) < 0) != (b < 0); }

int64_t int_pow(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (; exponent != 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return wrapping(result);
}

const std::map<std::string_view, IntUnary>& int_unary() {
  static const std::map<std::string_view, IntUnary> kTable = {
      {"abs", [](int64_t x) { return x < 0 ? wrapping(0 - static_cast<uint64_t>(x)) : x; }},
      {"bitwise_not", [](int64_t x) { return ~x; }},
      {"ceil", [](int64_t x) { return x; }},
      {"floor", [](int64_t x) { return x; }},
      {"neg", [](int64_t x) { return wrapping(0 - static_cast<uint64_t>(x)); }},
      {"relu", [](int64_t x) { return x < 0 ? 0 : x; }},
      {"round", [](int64_t x) { return x; }},
      {"sign", [](int64_t x) { return static_cast<int64_t>(x > 0) - (x < 0); }},
      {"trunc", [](int64_t x) { return x; }},
  };
  return kTable;
}

const std::map<std::string_view, IntBinary>& int_binary() {
  static const std::map<std::string_view, IntBinary> kTable = {
      {"add", [](int64_t a, int64_t b) { return wrapping(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }},
      {"bitwise_and", [](int64_t a, int64_t b) { return a & b; }},
      {"bitwise_or", [](int64_t a, int64_t b) { return a | b; }},
      {"bitwise_xor", [](int64_t a, int64_t b) { return a ^ b; }},
      {"div", quotient},
      {"floor_divide", [](int64_t a, int64_t b) { return quotient(a, b) - turns(a, b); }},
      {"fmax", [](int64_t a, int64_t b) { return a > b ? a : b; }},
      {"fmin", [](int64_t a, int64_t b) { return a < b ? a : b; }},
      {"fmod", rest},
      {"maximum", [](int64_t a, int64_t b) { return a > b ? a : b; }},
      {"minimum", [](int64_t a, int64_t b) { return a < b ? a : b; }},
      {"mul", [](int64_t a, int64_t b) { return wrapping(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }},
      {"pow", int_pow},
      {"remainder", [](int64_t a, int64_t b) { return rest(a, b) + (turns(a, b) ? b : 0); }},
      {"sub", [](int64_t a, int64_t b) { return wrapping(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); }},
      {"trunc_divide", quotient},
  };
  return kTable;
}

int64_t shifted(std::string_view op, DType dtype, int64_t a, int64_t b) {
  const int64_t bits = size_of(dtype) * 8;
  const bool outside = b < 0 || b >= bits;
  if (op == "shift_left") return outside ? 0 : wrapping(static_cast<uint64_t>(a) << b);
  return a >> (outside ? 63 : b);
}

// Truth values: a sum is "or", a product "and".
int64_t bool_scalar(std::string_view op, int64_t a, int64_t b) {
  if (op == "bitwise_not") return !a;
  if (op == "add" || op == "maximum" || op == "fmax" || op == "bitwise_or") return a | b;
  if (op == "mul" || op == "minimum" || op == "fmin" || op == "bitwise_and") return a & b;
  if (op == "bitwise_xor") return a ^ b;
  if (op == "abs" || op == "sign" || op == "relu") return a;
  fail(ErrorKind::kUnsupported, op, " has no meaning for bool");
}

template <class T>
bool compare(std::string_view op, T a, T b) {
  if (op == "eq") return a == b;
  if (op == "ne") return a != b;
  if (op == "lt") return a < b;
  if (op == "le") return a <= b;
  if (op == "gt") return a > b;
  return a >= b;
}

// -1 when `op` is no predicate.
int predicate(std::string_view op, DType compute, std::span<const Number> args) {
  const bool real = is_float(compute);
  const auto truth = [&](size_t i) { return real ? args[i].f != 0 : args[i].i != 0; };
  if (op == "isnan") return real && std::isnan(args[0].f);
  if (op == "isinf") return real && std::isinf(args[0].f);
  if (op == "logical_not") return !truth(0);
  if (op == "logical_and") return truth(0) && truth(1);
  if (op == "logical_or") return truth(0) || truth(1);
  if (op == "logical_xor") return truth(0) != truth(1);
  if (op != "eq" && op != "ne" && op != "lt" && op != "le" && op != "gt" && op != "ge") return -1;
  return real ? compare(op, args[0].f, args[1].f) : compare(op, args[0].i, args[1].i);
}

}  // namespace

Number scalar(std::string_view op, DType compute, std::span<const Number> args) {
  if (op == "where") return args[args[0].i ? 1 : 2];
  if (const int truth = predicate(op, compute, args); truth >= 0) return {0, truth};
  const bool unary = args.size() == 1;
  if (compute == DType::kBool) return {0, bool_scalar(op, args[0].i, unary ? 0 : args[1].i)};
  if (is_float(compute)) {
    if (unary) return {float_unary().at(op)(args[0].f), 0};
    return {float_binary().at(op)(args[0].f, args[1].f), 0};
  }
  if (op == "shift_left" || op == "shift_right") return {0, shifted(op, compute, args[0].i, args[1].i)};
  if (unary) return {0, int_unary().at(op)(args[0].i)};
  return {0, int_binary().at(op)(args[0].i, args[1].i)};
}

}  // namespace graphex::ops::reference
