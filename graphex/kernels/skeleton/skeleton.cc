// The template that a new kernel family copies: y = alpha * x + y on n floats, or y = alpha * x when kKeep is 0.
//
// Contract   pointers: x, y    sizes: n, alpha's float bits
// Tiles      kTile floats each; the last one is shorter. Any split over workers gives the same bits.
// Knobs      kKeep: 1 adds to y, 0 overwrites it. A knob is a constant when the kernel is compiled: test it freely.
// Workspace  none; a kernel that needs some defines NAME_workspace as NAME_tiles is defined.
// The level's macro (GX_LEVEL_GENERIC, _AVX2, _AVX512, _AVX512BF16) is defined; intrinsics of that level may be used
// under it.
#include "graphex/base/kernel_abi.h"

extern const int64_t kKeep;

namespace {

// 16 KiB: long enough to hide a call, short enough to balance.
constexpr int64_t kTile = 4096;

}  // namespace

extern "C" {

void gx_skeleton(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker*) {
  const auto* x = static_cast<const float*>(pointers[0]);
  auto* y = static_cast<float*>(pointers[1]);
  const int64_t last = end * kTile < sizes[0] ? end * kTile : sizes[0];
  const float alpha = __builtin_bit_cast(float, static_cast<int32_t>(sizes[1]));
  for (int64_t i = begin * kTile; i < last; ++i) y[i] = kKeep ? alpha * x[i] + y[i] : alpha * x[i];
}

int64_t gx_skeleton_tiles(const int64_t* sizes) { return (sizes[0] + kTile - 1) / kTile; }
}
