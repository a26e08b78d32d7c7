// Many rows of A, or a B that isn't row-major along k: both operands are packed into panels in the worker's scratch.
//
// A tile is one block of rows by one block of columns; consecutive tiles of a worker share packed operands: tiles run
// through a super block of row blocks for each column block in turn, so B is read from memory and packed once a super
// block, and the super block's rows are packed once a call. Where K is too long to keep whole panels they are packed
// per tile and block of K, with wider column blocks to pay for it.
#pragma once

#include "graphex/kernels/matmul/panels.h"

namespace graphex::kernels::matmul {

// Rows of A and columns of B a tile: a block of K of them stays in L2, 512 KiB on machines that stop at AVX2, 1 MiB and
// more beyond.
#if defined(__AVX512F__)
inline constexpr int64_t kBlockM = 144, kBlockN = 64;
inline constexpr int64_t kLongPanel = 4608;  // floats of a packed row; beyond, panels are packed per block of K
#else
inline constexpr int64_t kBlockM = 96, kBlockN = 32;
inline constexpr int64_t kLongPanel = 7168;
#endif
inline constexpr int64_t kLongBlockN = 128;  // columns a tile where K is long
inline constexpr int64_t kSumsFloats = kBlockM * kLongBlockN;
inline constexpr int64_t kBFloats = kBlockN * kLongPanel;
inline constexpr int64_t kAFloats = GX_SCRATCH_BYTES / int64_t(sizeof(float)) - kSumsFloats - kBFloats;
inline constexpr int64_t kMaxSuper = 64;  // row blocks of a super block, one bit each
static_assert(kBlockM * kLongPanel <= kAFloats && kLongBlockN * kMaxBlockK<float> <= kBFloats);

template <class T>
GX_INLINE bool is_long(const Problem& p) {
  return floats_of<T>(p.k) > kLongPanel;
}

// `count` things in `parts` ranges of sizes that differ by at most one: where range `index` starts.
GX_INLINE int64_t split(int64_t count, int64_t parts, int64_t index) { return count * index / parts; }

struct Grid {
  int64_t block_n;
  int64_t m_blocks, n_blocks, super;  // super: row blocks whose panels fit in scratch together

  template <class T>
  GX_INLINE Grid of(const Problem& p) {
    Grid grid;
    grid.block_n = is_long<T>(p) ? kLongBlockN : kBlockN;
    grid.m_blocks = ceil_div(p.m, kBlockM);
    grid.n_blocks = ceil_div(p.n, grid.block_n);
    const int64_t fit = is_long<T>(p) || p.k == 0 ? 1 : kAFloats / (kBlockM * floats_of<T>(p.k));
    grid.super = min(grid.m_blocks, min(fit, kMaxSuper));
    return grid;
  }
  inline __attribute__((always_inline)) int64_t tiles() const { return m_blocks * n_blocks; }
};

template <class T>
GX_INLINE int64_t blocked_tiles(const Problem& p) {
  return p.batch * Grid::of<T>(p).tiles();
}

// What is packed next comes into the cache meanwhile: `lines` of each of `rows`, `at_once` at each step.
struct Ahead {
  const char* row = nullptr;
  int64_t stride = 0, rows = 0, lines = 0, at_once = 0, line = 0;

  inline __attribute__((always_inline)) void step() {
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < at_once && rows > 0; ++i) {
      __builtin_prefetch(row + 64 * line, 0, 2);
      if (++line < lines) continue;
      line = 0;
      row += stride;
      --rows;
    }
  }
};

template <class T>
struct Blocked {
  Problem p;
  Grid grid;
  void* const* pointers;
  const int64_t* sizes;
  float *sums, *panels_b, *panels_a;
  int64_t panel_k;  // floats a row of a panel
  bool whole;       // panels hold all of K
  // What the panels hold where they do: row blocks of a super block (from super_first on), a column block.
  int64_t batch = -1, super_first = -1, column_block = -1;
  uint64_t packed_rows = 0;
  Ahead ahead = {};

  const T* a_at(int64_t row, int64_t k) const {
    return static_cast<const T*>(pointers[1]) + batch * p.a_batch + row * p.a_row + k * p.a_k;
  }
  const T* b_at(int64_t k, int64_t column) const {
    return static_cast<const T*>(pointers[2]) + batch * p.b_batch + column * p.b_column + k * p.b_k;
  }

  // sums[rows][block_n] = or += A panels x B panels over the `vectors` from `at` on. Two quads of B at a time stay in
  // L1.
  void multiply(const float* a, int64_t at, int64_t rows, int64_t quads, int64_t vectors, bool first) {
    for (int64_t pair = 0; pair < quads; pair += 2)
      each_panel<kTileRows>(rows, [&](int64_t row, int64_t panel) __attribute__((always_inline)) {
        for (int64_t quad = pair; quad < min(quads, pair + 2); ++quad) {
          ahead.step();
          with_rows<1, kTileRows>(panel, [&]<int R>(Rows<R>) __attribute__((always_inline)) {
            tile_packed<T, R>(a + row * panel_k + at * R, panels_b + (quad * panel_k + at) * 4, vectors,
                              sums + row * grid.block_n + quad * 4, grid.block_n, first);
          });
        }
      });
  }

  // Packs what a tile needs and the panels don't hold yet, where panels hold all of K.
  void pack_missing(int64_t m_block, int64_t n_block, float* a, int64_t row, int64_t row_end) {
    if (column_block != n_block) {
      column_block = n_block;
      const int64_t column = n_block * grid.block_n;
      pack_b<T>(p, b_at(0, column), panels_b, min(grid.block_n, p.n - column), p.k, panel_k);
      look_ahead(column + grid.block_n);
    }
    const uint64_t bit = uint64_t(1) << (m_block - super_first);
    if (packed_rows & bit) return;
    packed_rows |= bit;
    pack_a<T, kTileRows>(p, a_at(row, 0), a, row_end - row, p.k, panel_k);
  }

  // The block of columns from `column` on is fetched by as many steps as this one takes.
  void look_ahead(int64_t column) {
    const int64_t columns = min(grid.block_n, p.n - column);
    if (columns <= 0 || GX_B_LAYOUT == 2) return;
    const int64_t size = sizeof(T);
    ahead = {reinterpret_cast<const char*>(b_at(0, column)), p.b_column * size, columns, ceil_div(p.k * size, 64)};
    if (GX_B_LAYOUT == 1) {
      ahead.stride = p.b_k * size;
      ahead.rows = p.k;
      ahead.lines = ceil_div(columns * size, 64);
    }
    const int64_t rows = min(p.m, grid.super * kBlockM);
    const int64_t steps = ceil_div(rows, kTileRows) * (grid.block_n / 4) * ceil_div(p.k, p.block_k);
    ahead.at_once = ceil_div(ahead.rows * ahead.lines, steps);
  }

  void run_tile(int64_t m_block, int64_t n_block) {
    const int64_t row = split(p.m, grid.m_blocks, m_block), row_end = split(p.m, grid.m_blocks, m_block + 1);
    const int64_t column = n_block * grid.block_n, columns = min(p.n - column, grid.block_n);
    float* a = panels_a + (whole ? row - split(p.m, grid.m_blocks, super_first) : 0) * panel_k;
    if (whole) pack_missing(m_block, n_block, a, row, row_end);
    for (int64_t start = 0; start < p.k; start += p.block_k) {
      const int64_t length = min(p.block_k, p.k - start);
      if (!whole) {
        pack_a<T, kTileRows>(p, a_at(row, start), a, row_end - row, length, panel_k);
        pack_b<T>(p, b_at(start, column), panels_b, columns, length, panel_k);
      }
      multiply(a, whole ? floats_of<T>(start) : 0, row_end - row, ceil_div(columns, 4), vectors_of<T>(length),
               start == 0);
    }
    const Output<T> out = Output<T>::of(p, pointers, sizes, batch);
    for (int64_t m = row; m < row_end; ++m)
      out.template finish_row<kLanes>(sums + (m - row) * grid.block_n, columns, m, column);
  }

  void run(int64_t tile) {
    const int64_t at_batch = tile / grid.tiles(), in_batch = tile % grid.tiles();
    const int64_t per_super = grid.super * grid.n_blocks;
    const int64_t first = in_batch / per_super * grid.super, count = min(grid.super, grid.m_blocks - first);
    if (at_batch != batch || first != super_first) {
      if (at_batch != batch) column_block = -1;
      batch = at_batch;
      super_first = first;
      packed_rows = 0;
    }
    const int64_t in_super = in_batch % per_super;
    run_tile(first + in_super % count, in_super / count);
  }
};

template <class T>
GX_INLINE void run_blocked(const Problem& p, void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end,
                           float* scratch) {
  Blocked<T> blocked = {
      p, Grid::of<T>(p), pointers, sizes, scratch, scratch + kSumsFloats, scratch + kSumsFloats + kBFloats, 0, false};
  blocked.whole = !is_long<T>(p);
  blocked.panel_k = floats_of<T>(blocked.whole ? p.k : p.block_k);
  if (p.k == 0)
    for (int64_t i = 0; i < kSumsFloats; ++i) scratch[i] = 0.0f;
  for (int64_t tile = begin; tile < end; ++tile) blocked.run(tile);
}

}  // namespace graphex::kernels::matmul
