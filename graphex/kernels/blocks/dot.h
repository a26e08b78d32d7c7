// Products of weights and inputs, summed exactly: a lane of Dots is a row of the tile.
#pragma once

#include "graphex/kernels/blocks/formats.h"

namespace graphex::kernels::blocks {

using Dots = Ints<kTileRows>;

// What a signed quad has had added to become unsigned where the instruction wants that.
#if defined(__AVX512VNNI__)
inline constexpr int kSignedOffset = 128;
#else
inline constexpr int kSignedOffset = 0;
#endif

template <class Format>
inline constexpr int kTotalOffset = Format::kOffset + (Format::kSigned ? kSignedOffset : 0);

GX_INLINE Quads broadcast(const int8_t* input) { return __builtin_bit_cast(Quads, Words32(load<uint32_t>(input))); }

// Part<Format>: what products are added to, kRun<Format> pairs of quads at most, before total() makes Dots of it.
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
using Chars32 = char __attribute__((vector_size(32)));
using Shorts16 = short __attribute__((vector_size(32)));

template <class Format>
struct PartOf {
  using Type = Shorts<16>;
};
template <class Format>
  requires Format::kSigned
struct PartOf<Format> {
  using Type = Dots;
};
template <class Format>
inline constexpr int kRun = Format::kSum;

// The factors lie in both halves of each lane, as 16-bit integers.
GX_INLINE Dots total(Shorts<16> sum, Dots factors) {
  return __builtin_bit_cast(
      Dots, __builtin_ia32_pmaddwd256(__builtin_bit_cast(Shorts16, sum), __builtin_bit_cast(Shorts16, factors)));
}
GX_INLINE Dots total(Shorts<16> sum) { return total(sum, Dots(0x10001)); }
GX_INLINE Dots as_pairs(Dots factors) { return factors << 16 | (factors & 0xffff); }
GX_INLINE Shorts<16> products(Chars32 w, Chars32 x) {
  return __builtin_bit_cast(Shorts<16>, __builtin_ia32_pmaddubsw256(w, x));
}
template <class Format>
GX_INLINE typename PartOf<Format>::Type add_products(typename PartOf<Format>::Type sum, Quads w, Quads x) {
  const auto inputs = __builtin_bit_cast(Chars32, x), values = __builtin_bit_cast(Chars32, w);
  if constexpr (Format::kSigned) {
    const auto sizes = __builtin_bit_cast(Chars32, __builtin_elementwise_abs(__builtin_bit_cast(Bytes<32>, w)));
    return sum + total(products(sizes, __builtin_ia32_psignb256(inputs, values)));
  } else {
    return sum + products(values, inputs);
  }
}

#else
template <class Format>
struct PartOf {
  using Type = Dots;
};
template <class Format>
inline constexpr int kRun = kPairs;

template <class Format>
GX_INLINE Dots add_products(Dots sum, Quads w, Quads x) {
#if defined(__AVX512VNNI__)
  return __builtin_ia32_vpdpbusd256(sum, __builtin_bit_cast(Dots, Format::kSigned ? w ^ 128 : w),
                                    __builtin_bit_cast(Dots, x));
#else
  const auto product = [](auto weights, auto inputs) {
    const Dots wide = __builtin_convertvector(weights, Dots);
    return (Format::kSigned ? wide << 24 >> 24 : wide) * (__builtin_convertvector(inputs, Dots) << 24 >> 24);
  };
  return sum + product(w.even.even, x.even.even) + product(w.odd.even, x.odd.even) + product(w.even.odd, x.even.odd) +
         product(w.odd.odd, x.odd.odd);
#endif
}
#endif
GX_INLINE Dots total(Dots sum) { return sum; }
#if !defined(__AVX2__) || defined(__AVX512VNNI__)
GX_INLINE Dots total(Dots sum, Dots factors) { return sum * factors; }
GX_INLINE Dots as_pairs(Dots factors) { return factors; }
#endif

template <class Format>
using Part = typename PartOf<Format>::Type;

}  // namespace graphex::kernels::blocks
