// Vectors for kernels: one spelling, the widest registers of the ISA level that the file is being compiled for.
//
// `Vec` holds kLanes floats (4 generic, 8 AVX2, 16 AVX-512); Floats<N> any other count. The reduced types are bit
// patterns here: bf16 widens by a shift, f16 by F16C where the level has it and by integer steps where not. Narrowing
// rounds to nearest even and keeps NaN a NaN. Nothing here calls a library or depends on the rounding mode's flags.
#pragma once

#include <stdint.h>

#define GX_INLINE static inline __attribute__((always_inline))
// For a hot loop of its own: its registers are allocated apart from its callers', and it is optimised once.
#define GX_NOINLINE static __attribute__((noinline))

namespace graphex::kernels {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

template <int N>
using Floats = float __attribute__((ext_vector_type(N)));
template <int N>
using Words = uint32_t __attribute__((ext_vector_type(N)));
template <int N>
using Halves = uint16_t __attribute__((ext_vector_type(N)));
template <int N>
using Bytes = int8_t __attribute__((ext_vector_type(N)));
template <int N>
using Shorts = int16_t __attribute__((ext_vector_type(N)));
template <int N>
using Ints = int32_t __attribute__((ext_vector_type(N)));
template <int N>
using NativeHalves = _Float16 __attribute__((ext_vector_type(N)));
using Vec = Floats<kLanes>;
using Quad = Floats<4>;

GX_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
GX_INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

// Unaligned load and store of a whole vector type.
template <class V>
GX_INLINE V load(const void* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}
template <class V>
GX_INLINE void store(void* to, V value) {
  __builtin_memcpy(to, &value, sizeof(V));
}

// a * b + c: one rounding where the level has FMA, two where not.
template <class V>
GX_INLINE V multiply_add(V a, V b, V c) {
#if defined(__FMA__)
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <int N>
GX_INLINE Floats<N> from_bf16(Halves<N> bits) {
  return __builtin_bit_cast(Floats<N>, __builtin_convertvector(bits, Words<N>) << 16);
}

template <int N>
GX_INLINE Halves<N> to_bf16(Floats<N> value) {
  const Words<N> bits = __builtin_bit_cast(Words<N>, value);
  const Words<N> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Words<N> quiet = (bits >> 16) | 0x40u;
  const Words<N> is_nan = __builtin_bit_cast(Words<N>, (bits & 0x7fffffffu) > 0x7f800000u);
  return __builtin_convertvector((is_nan & quiet) | (~is_nan & rounded), Halves<N>);
}

template <int N>
GX_INLINE Floats<N> from_f16(Halves<N> bits) {
#if defined(__F16C__)
  return __builtin_convertvector(__builtin_bit_cast(NativeHalves<N>, bits), Floats<N>);
#else
  const Words<N> wide = __builtin_convertvector(bits, Words<N>);
  const Words<N> sign = (wide & 0x8000u) << 16;
  const Words<N> magnitude = (wide & 0x7fffu) << 13;
  const Words<N> exponent = magnitude & 0x0f800000u;
  const Words<N> is_special = __builtin_bit_cast(Words<N>, exponent == 0x0f800000u);
  const Words<N> is_small = __builtin_bit_cast(Words<N>, exponent == 0u);
  const Words<N> normal = magnitude + (112u << 23) + (is_special & (112u << 23));
  // A denormal becomes the fraction of 2^-14 * (1 + f), less 2^-14: exact, and never a float denormal.
  const Floats<N> unit = __builtin_bit_cast(Floats<N>, Words<N>(113u << 23));
  const Floats<N> denormal = __builtin_bit_cast(Floats<N>, magnitude | (113u << 23)) - unit;
  const Words<N> chosen = (is_small & __builtin_bit_cast(Words<N>, denormal)) | (~is_small & normal);
  return __builtin_bit_cast(Floats<N>, chosen | sign);
#endif
}

template <int N>
GX_INLINE Halves<N> to_f16(Floats<N> value) {
#if defined(__F16C__)
  return __builtin_bit_cast(Halves<N>, __builtin_convertvector(value, NativeHalves<N>));
#else
  const Words<N> bits = __builtin_bit_cast(Words<N>, value);
  const Words<N> sign = (bits >> 16) & 0x8000u;
  const Words<N> magnitude = bits & 0x7fffffffu;
  const Words<N> normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14 the sum with 0.5 leaves the rounded denormal in the low bits.
  const Floats<N> shifted = __builtin_bit_cast(Floats<N>, magnitude) + Floats<N>(0.5f);
  const Words<N> denormal = __builtin_bit_cast(Words<N>, shifted) - 0x3f000000u;
  const Words<N> is_small = __builtin_bit_cast(Words<N>, magnitude < (113u << 23));
  const Words<N> is_large = __builtin_bit_cast(Words<N>, magnitude >= 0x477ff000u);
  const Words<N> is_nan = __builtin_bit_cast(Words<N>, magnitude > 0x7f800000u);
  const Words<N> nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const Words<N> finite = (is_small & denormal) | (~is_small & normal);
  const Words<N> large = (is_nan & nan) | (~is_nan & 0x7c00u);
  return __builtin_convertvector(((is_large & large) | (~is_large & finite)) | sign, Halves<N>);
#endif
}

// N floats from N consecutive elements, and back.
template <int N>
GX_INLINE Floats<N> load_floats(const float* from) {
  return load<Floats<N>>(from);
}
template <int N>
GX_INLINE Floats<N> load_floats(const bf16* from) {
  return from_bf16<N>(load<Halves<N>>(from));
}
template <int N>
GX_INLINE Floats<N> load_floats(const f16* from) {
  return from_f16<N>(load<Halves<N>>(from));
}
template <int N>
GX_INLINE void store_floats(float* to, Floats<N> value) {
  store(to, value);
}
template <int N>
GX_INLINE void store_floats(bf16* to, Floats<N> value) {
  store(to, to_bf16<N>(value));
}
template <int N>
GX_INLINE void store_floats(f16* to, Floats<N> value) {
  store(to, to_f16<N>(value));
}

template <class T>
GX_INLINE float load_float(const T* from) {
  return load_floats<1>(from)[0];
}

// Lane i of the result is the sum of the lanes of vector i, each by the same tree.
GX_INLINE Quad sum_lanes(Floats<4> a, Floats<4> b, Floats<4> c, Floats<4> d) {
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
GX_INLINE Quad sum_lanes(Floats<8> a, Floats<8> b, Floats<8> c, Floats<8> d) {
  const Floats<8> ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) +
                       __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  const Floats<8> cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13) +
                       __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
  const Floats<8> all = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                        __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
  return all.lo + all.hi;
}
GX_INLINE Quad sum_lanes(Floats<16> a, Floats<16> b, Floats<16> c, Floats<16> d) {
  return sum_lanes(Floats<8>(a.lo + a.hi), Floats<8>(b.lo + b.hi), Floats<8>(c.lo + c.hi), Floats<8>(d.lo + d.hi));
}

// The same of two times four, in fewer steps than one after the other: all of them on whole vectors.
template <class Wide, class Four>
GX_INLINE void sum_lanes(const Wide (&a)[4], const Wide (&b)[4], Four& of_a, Four& of_b) {
  static_assert(sizeof(Wide) == 4 * sizeof(Four) && sizeof(Four) == 16);
  Wide both[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    both[i] = __builtin_shufflevector(a[i], b[i], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
              __builtin_shufflevector(a[i], b[i], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  const auto twos = [](Wide x, Wide y) {
    return __builtin_shufflevector(x, y, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
           __builtin_shufflevector(x, y, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  };
  const Wide first = twos(both[0], both[1]), second = twos(both[2], both[3]);
  const Wide fours = __builtin_shufflevector(first, second, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
                     __builtin_shufflevector(first, second, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  of_a = fours.lo.lo + fours.lo.hi;
  of_b = fours.hi.lo + fours.hi.hi;
}

}  // namespace graphex::kernels
