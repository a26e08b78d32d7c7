// The scalar functions as generated loops call them, widened by the vectoriser: exact ones must give PyTorch's bits,
// the rest must stay within the ULP that kernels/scalar states, against the C library's long double (or double for
// floats).
#include <gtest/gtest.h>

#include <cfenv>
#include <limits>

#include "tests/codegen/loop_reference.h"

namespace graphex::codegen {
namespace {

using testing::Problem;

template <class T>
constexpr DType kTypeOf = DType::kF32;
template <>
constexpr DType kTypeOf<double> = DType::kF64;

std::vector<Isa> host_levels() {
  std::vector<Isa> levels;
  for (const Isa isa : kIsas)
    if (isa <= host_isa()) levels.push_back(isa);
  return levels;
}

// function(args...) at one level, element by element.
template <class T>
std::vector<T> apply(Isa isa, const std::string& function, const std::vector<std::vector<T>>& args) {
  Problem p;
  p.spec.rank = 1;
  p.extents = {static_cast<int64_t>(args[0].size())};
  std::vector<int> values;
  for (size_t i = 0; i < args.size(); ++i) values.push_back(p.input(kTypeOf<T>));
  p.output(kTypeOf<T>, p.scalar(function, values));
  for (size_t i = 0; i < args.size(); ++i)
    std::memcpy(p.tensors[i].bytes.data(), args[i].data(), args[i].size() * sizeof(T));
  KernelCompiler compiler({.isa = isa, .use_cache = false});
  const KernelRequest request = LoopKernel{std::make_shared<LoopSpec>(p.spec)};
  const Kernel kernel = compiler.compile(std::span(&request, 1))[0];
  std::mt19937 random(1);
  p.run(kernel, random);
  std::vector<T> result(args[0].size());
  std::memcpy(result.data(), p.tensors.back().bytes.data(), result.size() * sizeof(T));
  return result;
}

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Numbers of every exponent, many near 1, whole and half numbers, the ends of each range, and the special values.
template <class T>
std::vector<T> probes(size_t count) {
  std::mt19937_64 random(7);
  std::vector<T> result;
  const auto add = [&](T x) {
    result.insert(result.end(), {x, -x, std::nextafter(x, T(0)), std::nextafter(x, T(1e30))});
  };
  using Limits = std::numeric_limits<T>;
  for (const T x : {T(0),
                    T(0.5),
                    T(1),
                    T(2),
                    T(M_PI_4),
                    T(M_PI_2),
                    T(M_PI),
                    T(88.72284),
                    T(103.97),
                    T(709.78),
                    T(745.13),
                    T(0.625),
                    T(4),
                    T(0.4142135),
                    T(2.4142135),
                    Limits::min(),
                    Limits::max(),
                    Limits::infinity(),
                    Limits::denorm_min(),
                    Limits::quiet_NaN(),
                    Limits::epsilon(),
                    T(1e5),
                    T(1e9),
                    T(16777216)})
    add(x);
  for (int i = 1; i < 200; ++i) add(static_cast<T>(i) * T(M_PI_2)), add(static_cast<T>(i) / 2);
  std::uniform_real_distribution<T> unit(-1, 1), small(-20, 20), large(-800, 800);
  while (result.size() < count) {
    result.push_back(std::bit_cast<T>(static_cast<Bits<T>>(random())));
    result.push_back(unit(random));
    result.push_back(small(random));
    result.push_back(large(random));
    result.push_back(T(1) + unit(random) / T(16));
  }
  return result;
}

// Distance of `got` from the exact value in units of the last place of T there; 0 for the same special value.
template <class T, class Wide>
double ulp_error(T got, Wide exact) {
  const T nearest = static_cast<T>(exact);
  if (std::isnan(nearest)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(got)) {
    if (got == nearest) return 0;
    // Beyond the largest finite number the next would be 2^emax.
    const T largest = std::copysign(std::numeric_limits<T>::max(), nearest);
    return std::signbit(got) == std::signbit(nearest) && (std::isinf(got) ? nearest : got) == largest ? 1 : INFINITY;
  }
  const T magnitude = std::max(std::fabs(nearest), std::numeric_limits<T>::min());
  const T place = magnitude - std::nextafter(magnitude, T(0));
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - exact) / static_cast<Wide>(place));
}

template <class T>
using WideOf = std::conditional_t<sizeof(T) == 4, double, long double>;

template <class W>
W reference(const std::string& f, W x) {
  const W one = 1, half = W(0.5);
  if (f == "exp") return std::exp(x);
  if (f == "exp2") return std::exp2(x);
  if (f == "expm1") return std::expm1(x);
  if (f == "log") return std::log(x);
  if (f == "log2") return std::log2(x);
  if (f == "log10") return std::log10(x);
  if (f == "log1p") return std::log1p(x);
  if (f == "sin") return std::sin(x);
  if (f == "cos") return std::cos(x);
  if (f == "tan") return std::tan(x);
  if (f == "asin") return std::asin(x);
  if (f == "acos") return std::acos(x);
  if (f == "atan") return std::atan(x);
  if (f == "sinh") return std::sinh(x);
  if (f == "cosh") return std::cosh(x);
  if (f == "tanh") return std::tanh(x);
  if (f == "erf") return std::erf(x);
  if (f == "sigmoid") return x < 0 ? std::exp(x) / (one + std::exp(x)) : one / (one + std::exp(-x));
  if (f == "silu") return x < 0 ? x * std::exp(x) / (one + std::exp(x)) : x / (one + std::exp(-x));
  if (f == "gelu") return half * x * std::erfc(-x * std::sqrt(half));
  if (f == "rsqrt") return one / std::sqrt(x);
  ADD_FAILURE() << f;
  return x;
}

struct Bound {
  const char* function;
  double f32, f64;  // ULP
};
// What kernels/scalar/math32.h and math64.h state. rsqrt rounds twice, as PyTorch's does.
constexpr Bound kBounds[] = {{"exp", 1, 1},   {"exp2", 1, 1},  {"expm1", 1, 2},   {"log", 1, 1},  {"log2", 1, 2},
                             {"log10", 1, 2}, {"log1p", 1, 2}, {"sin", 1, 2},     {"cos", 1, 2},  {"tan", 1, 3},
                             {"asin", 1, 2},  {"acos", 1, 2},  {"atan", 1, 2},    {"sinh", 1, 3}, {"cosh", 1, 2},
                             {"tanh", 2, 4},  {"erf", 2, 2},   {"sigmoid", 3, 3}, {"silu", 3, 3}, {"rsqrt", 2, 2}};

template <class T>
void check_accuracy(const Bound& bound, double limit) {
  const std::vector<T> x = probes<T>(60000);
  std::vector<WideOf<T>> exact;
  for (const T value : x) exact.push_back(reference<WideOf<T>>(bound.function, value));
  // silu multiplies an e^x that may be denormal: 52 (floats) or 373 (doubles) steps of the smallest number.
  const bool coarse = std::string(bound.function) == "silu";
  const WideOf<T> ignored = coarse ? (sizeof(T) == 4 ? 53 : 374) * WideOf<T>(std::numeric_limits<T>::denorm_min()) : 0;
  for (const Isa isa : host_levels()) {
    const std::vector<T> y = apply<T>(isa, bound.function, {x});
    double worst = 0;
    T where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::fabs(y[i] - exact[i]) <= ignored) continue;
      const double error = ulp_error<T, WideOf<T>>(y[i], exact[i]);
      if (error > worst) worst = error, where = x[i];
    }
    if (std::getenv("GX_SHOW_ULP"))
      std::printf("%-8s %-8s f%zu %.3f at %.17g\n", bound.function, name_of(isa).data(), 8 * sizeof(T), worst,
                  double(where));
    EXPECT_LE(worst, limit) << bound.function << " at " << where << ", level " << name_of(isa);
  }
}

TEST(Scalar, FloatAccuracy) {
  for (const Bound& bound : kBounds) check_accuracy<float>(bound, bound.f32);
}
// 1 + erf(x) and 1 + tanh(x) cancel for negative x, as in PyTorch: the error is relative to x, and half the smallest
// number where the result is denormal.
template <class T>
void check_gelu(double unit) {
  const std::vector<T> x = probes<T>(20000);
  for (const Isa isa : host_levels()) {
    const std::vector<T> y = apply<T>(isa, "gelu", {x}), z = apply<T>(isa, "gelu_tanh", {x});
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i])) continue;
      using W = WideOf<T>;
      constexpr W least = W(0.5001) * std::numeric_limits<T>::denorm_min();
      const W v = x[i], inner = std::sqrt(W(2) / std::acos(W(-1))) * (v + W(0.044715L) * v * v * v);
      EXPECT_LE(std::fabs(y[i] - reference<W>("gelu", v)), unit * std::fabs(v) + least) << "gelu(" << v << ")";
      EXPECT_LE(std::fabs(z[i] - v / (1 + std::exp(-2 * inner))), unit * std::fabs(v) + least)
          << "gelu_tanh(" << v << ")";
    }
  }
}
TEST(Scalar, GeluOfFloats) { check_gelu<float>(0x1p-22); }
TEST(Scalar, GeluOfDoubles) { check_gelu<double>(0x1p-50); }

TEST(Scalar, DoubleAccuracy) {
  for (const Bound& bound : kBounds) check_accuracy<double>(bound, bound.f64);
}

}  // namespace
}  // namespace graphex::codegen
