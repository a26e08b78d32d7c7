// Products of weights and inputs, summed exactly: a lane of Dots is a row of the tiles.
#pragma once

#include "graphex/kernels/blocks/formats.h"

namespace graphex::kernels::blocks {

using Dots = Ints<kRows>;

GX_INLINE Quads broadcast(const int8_t* input) {
  return __builtin_bit_cast(Quads, Words<kRows>(load<uint32_t>(input)));
}

// Part<Format>: what products are added to, at most kRun<Format> pairs of quads where it isn't Dots, before total()
// makes Dots of it.
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

GX_INLINE Dots total(Shorts<16> sum) {
  return __builtin_bit_cast(
      Dots, __builtin_ia32_pmaddwd256(__builtin_bit_cast(Shorts16, sum), __builtin_bit_cast(Shorts16, Dots(0x10001))));
}
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
GX_INLINE Dots add_products(Dots sum, Quads w, Quads x) {
#if defined(__AVX512VNNI__)
  return __builtin_ia32_vpdpbusd512(sum, __builtin_bit_cast(Dots, w), __builtin_bit_cast(Dots, x));
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

template <class Format>
using Part = typename PartOf<Format>::Type;
template <class Format>
inline constexpr bool kSumsInParts = sizeof(Part<Format>) / sizeof(Part<Format>{}[0]) != kRows;

}  // namespace graphex::kernels::blocks
