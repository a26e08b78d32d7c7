// How workers divide the tiles of a launch: each has a share, works through it in ever smaller pieces from its front,
// and then helps who is late from the back of theirs. A worker that loses its core to a neighbour holds up the others
// by one piece at most.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "graphex/base/kernel_abi.h"

namespace graphex::runtime {

struct TileRange {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
};

// The share of worker `id` of `count`; every tile is in one share.
inline TileRange share_of(int64_t tiles, int id, int count) {
  return {(tiles * id + count - 1) / count, (tiles * (id + 1) + count - 1) / count};
}

class Shares {
 public:
  // `taken` has a word per worker: how many tiles of its share are gone, from the front (low half) and from the back.
  // All must be 0 before the first worker comes.
  Shares(int64_t tiles, int count, uint64_t* taken) : tiles_(tiles), count_(count), taken_(taken) {}

  // What the worker does next; empty when nothing is left for it.
  TileRange take(int id) {
    if (const TileRange own = take_of(id, true); !own.empty()) return own;
    for (int step = 1; step < count_; ++step)
      if (const TileRange other = take_of((id + step) % count_, false); !other.empty()) return other;
    return {0, 0};
  }

 private:
  static constexpr int kHalf = 32;

  // A short piece costs a kernel its run-up, so most of a share is one piece and no piece is very small.
  int64_t piece_of(int64_t left, int64_t share) const {
    const int64_t piece = left == share ? left - left / 4 : std::max((left + 1) / 2, share / 8);
    return std::min(piece, left);
  }

  TileRange take_of(int owner, bool front) {
    const TileRange share = share_of(tiles_, owner, count_);
    const std::atomic_ref<uint64_t> word(taken_[owner]);
    for (uint64_t old = word.load(std::memory_order_relaxed);;) {
      const int64_t begin = share.begin + static_cast<int64_t>(old & 0xffffffff);
      const int64_t end = share.end - static_cast<int64_t>(old >> kHalf);
      if (begin >= end) return {0, 0};
      const int64_t piece = piece_of(end - begin, share.end - share.begin);
      const uint64_t now = old + (static_cast<uint64_t>(piece) << (front ? 0 : kHalf));
      if (word.compare_exchange_weak(old, now, std::memory_order_relaxed))
        return front ? TileRange{begin, begin + piece} : TileRange{end - piece, end};
    }
  }

  const int64_t tiles_;
  const int count_;
  uint64_t* const taken_;
};

}  // namespace graphex::runtime
