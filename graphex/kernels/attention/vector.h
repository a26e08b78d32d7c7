// fp32 vectors of the level's natural width, conversions to and from the 16-bit types, and exp.
#pragma once

#include <stdint.h>

#define GX_INLINE static inline __attribute__((always_inline))
// A phase of a kernel: one copy, however many callers, keeps run-time compilation short.
#define GX_PHASE static __attribute__((noinline))

namespace graphex::kernels {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float f32v __attribute__((vector_size(kLanes * 4)));
typedef int32_t i32v __attribute__((vector_size(kLanes * 4)));
typedef uint32_t u32v __attribute__((vector_size(kLanes * 4)));
typedef uint16_t u16v __attribute__((vector_size(kLanes * 2)));
typedef _Float16 f16v __attribute__((vector_size(kLanes * 2)));

struct BFloat16 {
  uint16_t bits;
};

template <typename V, typename T>
GX_INLINE V load_as(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <typename T, typename V>
GX_INLINE void store_as(T* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

GX_INLINE f32v splat(float x) { return x - f32v{}; }

GX_INLINE f32v mul_add(f32v a, f32v b, f32v c) {
#if defined(__FMA__)
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

GX_INLINE f32v max_of(f32v a, f32v b) { return a > b ? a : b; }

GX_INLINE f32v from_bits(u32v v) { return (f32v)v; }

// Half precision without the instruction: scale the shifted exponent, then put infinities and NaNs back.
GX_INLINE f32v widen_f16_bits(u32v h) {
  u32v magnitude = (h & 0x7fff) << 13;
  f32v value = from_bits(magnitude) * 0x1p112f;
  u32v special = (u32v)(magnitude >= (u32v{} + (0x7c00u << 13)));
  return from_bits(((u32v)value & ~special) | ((magnitude | 0x7f800000u) & special) | ((h & 0x8000) << 16));
}

GX_INLINE f32v load(const float* p) { return load_as<f32v>(p); }

GX_INLINE f32v load(const BFloat16* p) {
  return from_bits(__builtin_convertvector(load_as<u16v>(p), u32v) << 16);
}

GX_INLINE f32v load(const _Float16* p) {
#if defined(__F16C__)
  return __builtin_convertvector(load_as<f16v>(p), f32v);
#else
  return widen_f16_bits(__builtin_convertvector(load_as<u16v>(p), u32v));
#endif
}

GX_INLINE u16v narrow_to_bf16(f32v x) {
  u32v bits = (u32v)x;
  u32v rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  u32v quiet = (bits >> 16) | 0x40;
  return __builtin_convertvector(x != x ? quiet : rounded, u16v);
}

// Round to nearest even by letting an addition drop the bits that half precision doesn't have.
GX_INLINE u16v narrow_to_f16_bits(f32v x) {
  u32v bits = (u32v)x;
  u32v magnitude = bits & 0x7fffffff;
  f32v subnormal = from_bits(magnitude) + 0.5f;
  u32v small = (u32v)subnormal - 0x3f000000u;
  u32v normal = (magnitude + (0xfffu - (112u << 23)) + ((magnitude >> 13) & 1)) >> 13;
  u32v large = magnitude > (u32v{} + 0x7f800000u) ? (u32v{} + 0x7e00u) : (u32v{} + 0x7c00u);
  u32v half = magnitude < (u32v{} + 0x38800000u) ? small : normal;
  half = magnitude >= (u32v{} + 0x477ff000u) ? large : half;
  return __builtin_convertvector(half | ((bits >> 16) & 0x8000), u16v);
}

GX_INLINE void store(float* p, f32v x) { store_as(p, x); }
GX_INLINE void store(BFloat16* p, f32v x) { store_as(p, narrow_to_bf16(x)); }

GX_INLINE void store(_Float16* p, f32v x) {
#if defined(__F16C__)
  store_as(p, __builtin_convertvector(x, f16v));
#else
  store_as(p, narrow_to_f16_bits(x));
#endif
}

// The first `count` elements, the rest 0; nothing else is touched.
template <typename T>
GX_INLINE f32v load_part(const T* p, int64_t count) {
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}

template <typename T>
GX_INLINE void store_part(T* p, f32v x, int64_t count) {
  T lanes[kLanes];
  store(lanes, x);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

template <typename T>
GX_INLINE float to_float(const T* p) {
  return load_part(p, 1)[0];
}

GX_INLINE i32v lane_indices() {
  i32v v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

GX_INLINE float sum_lanes(f32v v) {
  float s[kLanes];
  store(s, v);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) s[i] += s[i + width];
  return s[0];
}

// NaN lanes may be lost.
GX_INLINE float max_lanes(f32v v) {
  float s[kLanes];
  store(s, v);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) s[i] = s[i] > s[i + width] ? s[i] : s[i + width];
  return s[0];
}

// exp for x <= 0 within 1 ULP; below -87.3 the result is 0 (no subnormals), NaN stays NaN.
// x = n ln2 + r with |r| <= ln2 / 2; exp(r) = 1 + r + r^2 q(r), q minimax with relative error 4e-9.
GX_INLINE f32v exp_nonpositive(f32v x) {
  const f32v shift = splat(0x1.8p23f);
  f32v shifted = mul_add(x, splat(0x1.715476p0f), shift);
  f32v n = shifted - shift;
  f32v r = mul_add(n, splat(-0x1.62e4p-1f), x);  // 15 bits: n times it is exact
  r = mul_add(n, splat(-0x1.7f7d1cp-20f), r);
  f32v q = mul_add(r, splat(0.0013814540579915047f), splat(0.00836874544620514f));
  q = mul_add(q, r, splat(0.04166838899254799f));
  q = mul_add(q, r, splat(0.1666652113199234f));
  q = mul_add(q, r, splat(0.4999999403953552f));
  f32v p = mul_add(q * r, r, r) + 1.0f;
  f32v scaled = from_bits((u32v)p + ((u32v)shifted << 23));
  return x < splat(-87.3f) ? f32v{} : scaled;
}

}  // namespace graphex::kernels
