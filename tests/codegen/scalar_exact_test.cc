// Scalar functions whose result is one exact value: integers, rounding, remainders, comparisons, special values. The
// references are PyTorch's definitions in the plainest C++.
#include <gtest/gtest.h>

#include <limits>

#include "tests/codegen/loop_reference.h"

namespace graphex::codegen {
namespace {

using testing::Problem;
using Wide = __int128;

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kI8;
  if constexpr (std::is_same_v<T, int16_t>) return DType::kI16;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  return DType::kI64;
}

// Every function of the list on every pair (a, b), one kernel for all: results[function][pair], predicates as 0 and 1.
template <class T>
std::map<std::string, std::vector<T>> apply(Isa isa, const std::vector<std::string>& functions, const std::vector<T>& a,
                                            const std::vector<T>& b) {
  Problem p;
  p.spec.rank = 1;
  p.extents = {static_cast<int64_t>(a.size())};
  const int x = p.input(dtype_of<T>()), y = p.input(dtype_of<T>());
  for (const std::string& f : functions) {
    const int value = scalar_arity(f) == 1 ? p.scalar(f, {x}) : p.scalar(f, {x, y});
    p.output(dtype_of<T>(), scalar_is_predicate(f) ? p.cast(dtype_of<T>(), value) : value);
  }
  std::memcpy(p.tensors[0].bytes.data(), a.data(), a.size() * sizeof(T));
  std::memcpy(p.tensors[1].bytes.data(), b.data(), b.size() * sizeof(T));
  KernelCompiler compiler({.isa = isa, .use_cache = false});
  const KernelRequest request = LoopKernel{std::make_shared<LoopSpec>(p.spec)};
  std::mt19937 random(1);
  p.run(compiler.compile(std::span(&request, 1))[0], random);
  std::map<std::string, std::vector<T>> results;
  for (size_t i = 0; i < functions.size(); ++i) {
    results[functions[i]].resize(a.size());
    std::memcpy(results[functions[i]].data(), p.tensors[2 + i].bytes.data(), a.size() * sizeof(T));
  }
  return results;
}

template <class T>
using Reference = std::function<T(T, T)>;

// All pairs of `values` through all functions, at every level that this machine has.
template <class T>
void check_pairs(const std::map<std::string, Reference<T>>& references, const std::vector<T>& values) {
  std::vector<T> a, b;
  for (const T x : values)
    for (const T y : values) a.push_back(x), b.push_back(y);
  std::vector<std::string> functions;
  for (const auto& [name, reference] : references) functions.push_back(name);
  for (const Isa isa : kIsas) {
    if (isa > host_isa()) continue;
    const auto results = apply<T>(isa, functions, a, b);
    for (const auto& [name, reference] : references) {
      int failures = 0;
      for (size_t i = 0; i < a.size() && failures < 5; ++i) {
        const T got = results.at(name)[i], expected = reference(a[i], b[i]);
        const bool both_nan = got != got && expected != expected;
        if (both_nan || std::memcmp(&got, &expected, sizeof got) == 0) continue;
        ++failures;
        ADD_FAILURE() << name << "(" << +a[i] << ", " << +b[i] << ") of " << name_of(dtype_of<T>()) << " at "
                      << name_of(isa) << " is " << +got << ", expected " << +expected;
      }
    }
  }
}

template <class T>
Wide floor_quotient(Wide a, Wide b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
template <class T>
T power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? T(1) : base == T(-1) ? (exponent % 2 ? T(-1) : T(1)) : T(0);
  if (base == 0 || base == 1) return exponent == 0 ? T(1) : base;
  if (base == T(-1) && T(-1) < 0) return exponent % 2 ? base : T(1);
  uint64_t result = 1;
  for (T i = 0; i < std::min<T>(exponent, 100); ++i) result *= static_cast<uint64_t>(base);
  // Beyond 100 factors an even base is 0 in 64 bits; odd ones are kept out of the exponents' range below.
  return static_cast<T>(result);
}

template <class T>
void check_integers() {
  constexpr int kBits = sizeof(T) * 8;
  const std::map<std::string, Reference<T>> references = {
      {"abs", [](T a, T) { return T(a < 0 ? -Wide(a) : Wide(a)); }},
      {"neg", [](T a, T) { return T(-Wide(a)); }},
      {"ceil", [](T a, T) { return a; }},
      {"floor", [](T a, T) { return a; }},
      {"round", [](T a, T) { return a; }},
      {"trunc", [](T a, T) { return a; }},
      {"relu", [](T a, T) { return std::max<T>(a, 0); }},
      {"sign", [](T a, T) { return T((a > 0) - (a < 0)); }},
      {"bitwise_not", [](T a, T) { return T(~a); }},
      {"isnan", [](T, T) { return T(0); }},
      {"isinf", [](T, T) { return T(0); }},
      {"logical_not", [](T a, T) { return T(!a); }},
      {"add", [](T a, T b) { return T(Wide(a) + b); }},
      {"sub", [](T a, T b) { return T(Wide(a) - b); }},
      {"mul", [](T a, T b) { return T(Wide(a) * b); }},
      {"div", [](T a, T b) { return T(b == 0 ? Wide(0) : Wide(a) / b); }},
      {"trunc_divide", [](T a, T b) { return T(b == 0 ? Wide(0) : Wide(a) / b); }},
      {"floor_divide", [](T a, T b) { return T(floor_quotient<T>(a, b)); }},
      {"remainder", [](T a, T b) { return T(b == 0 ? Wide(0) : a - floor_quotient<T>(a, b) * b); }},
      {"fmod", [](T a, T b) { return T(b == 0 ? Wide(0) : Wide(a) % b); }},
      {"pow", [](T a, T b) { return power(a, b); }},
      {"maximum", [](T a, T b) { return std::max(a, b); }},
      {"minimum", [](T a, T b) { return std::min(a, b); }},
      {"fmax", [](T a, T b) { return std::max(a, b); }},
      {"fmin", [](T a, T b) { return std::min(a, b); }},
      {"bitwise_and", [](T a, T b) { return T(a & b); }},
      {"bitwise_or", [](T a, T b) { return T(a | b); }},
      {"bitwise_xor", [](T a, T b) { return T(a ^ b); }},
      {"shift_left", [](T a, T b) { return b < 0 || b >= kBits ? T(0) : T(Wide(a) << b); }},
      {"shift_right", [](T a, T b) { return b < 0 || b >= kBits ? T(a < 0 ? -1 : 0) : T(a >> b); }},
      {"eq", [](T a, T b) { return T(a == b); }},
      {"ne", [](T a, T b) { return T(a != b); }},
      {"lt", [](T a, T b) { return T(a < b); }},
      {"le", [](T a, T b) { return T(a <= b); }},
      {"gt", [](T a, T b) { return T(a > b); }},
      {"ge", [](T a, T b) { return T(a >= b); }},
      {"logical_and", [](T a, T b) { return T(a && b); }},
      {"logical_or", [](T a, T b) { return T(a || b); }},
      {"logical_xor", [](T a, T b) { return T(!a != !b); }},
  };
  for (const auto& [name, reference] : references) EXPECT_TRUE(scalar_available(name, dtype_of<T>())) << name;
  using Limits = std::numeric_limits<T>;
  const std::vector<T> values = {0,
                                 1,
                                 2,
                                 3,
                                 5,
                                 7,
                                 8,
                                 15,
                                 16,
                                 31,
                                 32,
                                 33,
                                 63,
                                 64,
                                 90,
                                 T(-1),
                                 T(-2),
                                 T(-3),
                                 T(-7),
                                 T(-100),
                                 Limits::min(),
                                 Limits::max(),
                                 T(Limits::min() + 1),
                                 T(Limits::max() - 1),
                                 T(Limits::max() / 3)};
  auto no_power = references;
  no_power.erase("pow");
  check_pairs(no_power, values);
  const std::vector<T> small = {0, 1, 2, 3, 5, 7, 10, 31, 63, 64, 90, T(sizeof(T) > 1 || T(-1) > 0 ? 100 : 99)};
  check_pairs<T>({{"pow", references.at("pow")}}, small);
  if constexpr (T(-1) < 0) check_pairs<T>({{"pow", references.at("pow")}}, {T(-1), T(-2), T(-3), 1, 2, 3, 0});
}

TEST(ScalarExact, I8) { check_integers<int8_t>(); }
TEST(ScalarExact, U8) { check_integers<uint8_t>(); }
TEST(ScalarExact, I16) { check_integers<int16_t>(); }
TEST(ScalarExact, I32) { check_integers<int32_t>(); }
TEST(ScalarExact, I64) { check_integers<int64_t>(); }

template <class T>
T float_remainder(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && std::signbit(b) != std::signbit(rest) ? rest + b : rest;
}
// As ATen's div_floor.
template <class T>
T float_floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  T whole = std::floor(quotient);
  if (quotient - whole > T(0.5)) whole += 1;
  return whole;
}

template <class T>
void check_floats() {
  const std::map<std::string, Reference<T>> references = {
      {"abs", [](T a, T) { return std::fabs(a); }},
      {"neg", [](T a, T) { return -a; }},
      {"ceil", [](T a, T) { return std::ceil(a); }},
      {"floor", [](T a, T) { return std::floor(a); }},
      {"round", [](T a, T) { return std::nearbyint(a); }},
      {"trunc", [](T a, T) { return std::trunc(a); }},
      {"sqrt", [](T a, T) { return std::sqrt(a); }},
      {"rsqrt", [](T a, T) { return T(1) / std::sqrt(a); }},
      {"reciprocal", [](T a, T) { return T(1) / a; }},
      {"relu", [](T a, T) { return a < 0 ? T(0) : a; }},
      {"sign", [](T a, T) { return T((a > 0) - (a < 0)); }},
      {"isnan", [](T a, T) { return T(std::isnan(a)); }},
      {"isinf", [](T a, T) { return T(std::isinf(a)); }},
      {"logical_not", [](T a, T) { return T(a == 0); }},
      {"add", [](T a, T b) { return a + b; }},
      {"sub", [](T a, T b) { return a - b; }},
      {"mul", [](T a, T b) { return a * b; }},
      {"div", [](T a, T b) { return a / b; }},
      {"trunc_divide", [](T a, T b) { return std::trunc(a / b); }},
      {"fmod", [](T a, T b) { return std::fmod(a, b); }},
      {"remainder", [](T a, T b) { return float_remainder(a, b); }},
      {"floor_divide", [](T a, T b) { return float_floor_divide(a, b); }},
      {"maximum", [](T a, T b) { return std::isnan(a)   ? a
                                        : std::isnan(b) ? b
                                        : a > b         ? a
                                                        : b; }},
      {"minimum", [](T a, T b) { return std::isnan(a)   ? a
                                        : std::isnan(b) ? b
                                        : a < b         ? a
                                                        : b; }},
      {"fmax", [](T a, T b) { return std::isnan(b)   ? a
                                     : std::isnan(a) ? b
                                     : a >= b        ? a
                                                     : b; }},
      {"fmin", [](T a, T b) { return std::isnan(b)   ? a
                                     : std::isnan(a) ? b
                                     : a <= b        ? a
                                                     : b; }},
      {"eq", [](T a, T b) { return T(a == b); }},
      {"ne", [](T a, T b) { return T(a != b); }},
      {"lt", [](T a, T b) { return T(a < b); }},
      {"le", [](T a, T b) { return T(a <= b); }},
      {"gt", [](T a, T b) { return T(a > b); }},
      {"ge", [](T a, T b) { return T(a >= b); }},
      {"logical_and", [](T a, T b) { return T(a != 0 && b != 0); }},
      {"logical_or", [](T a, T b) { return T(a != 0 || b != 0); }},
      {"logical_xor", [](T a, T b) { return T((a != 0) != (b != 0)); }},
  };
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::max(),
                           Limits::min(),
                           Limits::denorm_min(),
                           Limits::denorm_min() * 3,
                           0};
  for (const double x :
       {0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 7.0, 1e3, 12345.678, 8388607.5, 16777215.0, 1e10, 1e20, 1e-20})
    values.push_back(static_cast<T>(x));
  for (size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  std::mt19937_64 random(5);
  for (int i = 0; i < 40; ++i) {
    const uint64_t bits = random();
    T value;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
  }
  check_pairs(references, values);
}

TEST(ScalarExact, F32) { check_floats<float>(); }
TEST(ScalarExact, F64) { check_floats<double>(); }

// std::pow's special values are C's, which are PyTorch's; elsewhere one unit in the last place.
template <class T>
void check_power() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           0.5,
                           1,
                           1.5,
                           2,
                           3,
                           4,
                           10,
                           0.1,
                           100,
                           700.25,
                           Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::max(),
                           Limits::min(),
                           Limits::denorm_min(),
                           T(1) + Limits::epsilon(),
                           T(1) - Limits::epsilon(),
                           T(1e9),
                           T(16777217)};
  for (size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  std::mt19937_64 random(5);
  std::uniform_real_distribution<T> pick(-30, 30);
  for (int i = 0; i < 60; ++i) values.push_back(std::fabs(pick(random)));
  for (int i = 0; i < 20; ++i) values.push_back(pick(random) * 10);
  std::vector<T> a, b;
  for (const T x : values)
    for (const T y : values) a.push_back(x), b.push_back(y);
  for (const Isa isa : kIsas) {
    if (isa > host_isa()) continue;
    const auto got = apply<T>(isa, {"pow", "atan2"}, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const auto near = [&](T value, T expected, const char* name, int ulps) {
        T low = expected, high = expected;
        for (int k = 0; k < ulps; ++k)
          low = std::nextafter(low, -Limits::infinity()), high = std::nextafter(high, Limits::infinity());
        const bool same_sign = value != value || std::signbit(value) == std::signbit(expected);
        EXPECT_TRUE((std::isnan(value) && std::isnan(expected)) || (value >= low && value <= high && same_sign))
            << name << "(" << a[i] << ", " << b[i] << ") at " << name_of(isa) << " is " << value << ", expected "
            << expected;
      };
      near(got.at("pow")[i], std::pow(a[i], b[i]), "pow", 1);
      near(got.at("atan2")[i], std::atan2(a[i], b[i]), "atan2", sizeof(T) == 4 ? 1 : 3);
    }
  }
}

TEST(ScalarExact, PowerAndAngleOfFloats) { check_power<float>(); }
TEST(ScalarExact, PowerAndAngleOfDoubles) { check_power<double>(); }

}  // namespace
}  // namespace graphex::codegen
