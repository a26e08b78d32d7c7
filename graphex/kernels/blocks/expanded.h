// Blocks of a few tiles, decoded once for many rows of X: a format like the others, a group of 32 a block.
#pragma once

#include "graphex/kernels/blocks/formats.h"

namespace graphex::kernels::blocks {

// Where decoded vectors lie, side by side in groups.
struct Decoded {
  char* at;

  inline __attribute__((always_inline)) Decoded operator+(int64_t bytes) const { return {at + bytes}; }
};

template <class Format>
struct Expanded : Format {
  using Cursor = Decoded;
  struct Unpacked {};
  static constexpr int kGroups = 1, kSteps = 1;
  static constexpr int64_t kQuads = int64_t(sizeof(Rows)) * (Format::kScales + (Format::kMinimum ? 1 : 0));
  static constexpr int64_t kBytes = kQuads + 2 * kPairs * int64_t(sizeof(Quads));

  GX_INLINE Unpacked unpack(Decoded) { return {}; }
  GX_INLINE Rows scale(const Unpacked&, Decoded group, int64_t, int part) {
    return load<Rows>(group.at + part * int64_t(sizeof(Rows)));
  }
  GX_INLINE Rows minimum(const Unpacked&, Decoded group, int64_t) {
    return load<Rows>(group.at + Format::kScales * int64_t(sizeof(Rows)));
  }
  GX_INLINE Quads quad(Decoded group, int64_t, int, int64_t pair, int half) {
    return load<Quads>(group.at + kQuads + (2 * pair + half) * int64_t(sizeof(Quads)));
  }

  template <int kGroup, class Shared>
  GX_INLINE void decode_group(Decoded to, const Shared& shared, Tiles block, int64_t step) {
    const int64_t group = step * Format::kGroups + kGroup;
    to = to + kGroup * kBytes;
#pragma unroll
    for (int part = 0; part < Format::kScales; ++part)
      store(to.at + part * int64_t(sizeof(Rows)), Format::scale(shared, block, group, part));
    if constexpr (Format::kMinimum)
      store(to.at + Format::kScales * int64_t(sizeof(Rows)), Format::minimum(shared, block, group));
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i)
      store(to.at + kQuads + i * int64_t(sizeof(Quads)), Format::quad(block, step, kGroup, i / 2, i % 2));
    if constexpr (kGroup + 1 < Format::kGroups) decode_group<kGroup + 1>(to + -kGroup * kBytes, shared, block, step);
  }

  // The blocks of k elements from `from` on.
  static __attribute__((noinline)) void decode(Decoded to, Tiles from, int64_t k) {
    constexpr int64_t kStep = Format::kGroups * kBytes;
#pragma clang loop unroll(disable)
    for (const char* end = to.at + k / kBlockGroup * kBytes; to.at < end; from = from + Format::kBytes) {
      const auto shared = Format::unpack(from);
#pragma clang loop unroll(disable)
      for (int64_t step = 0; step < Format::kSteps; ++step, to = to + kStep) decode_group<0>(to, shared, from, step);
    }
  }
};

}  // namespace graphex::kernels::blocks
