// The two entries of one element type; a .cc of the family is one use of GX_MATMUL_ENTRY.
#pragma once

#include "graphex/kernels/matmul/blocked.h"
#include "graphex/kernels/matmul/direct.h"
#include "graphex/kernels/matmul/outer.h"

namespace graphex::kernels::matmul {

template <class T>
GX_INLINE int64_t tiles(const int64_t* sizes) {
  const Problem p = Problem::from<T>(sizes);
  if (p.batch == 0 || p.m == 0 || p.n == 0) return 0;
  if (is_direct(p)) return direct_tiles(p);
  return is_outer(p) ? outer_tiles(p) : blocked_tiles<T>(p);
}

// The knobs alone decide where they can, so that what they rule out is never compiled.
template <class T>
GX_INLINE void run(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  const Problem p = Problem::from<T>(sizes);
  float* scratch = static_cast<float*>(worker->scratch);
  if (GX_B_LAYOUT == 0 && is_direct(p)) return run_direct<T>(p, pointers, sizes, begin, end, scratch);
  if (GX_B_LAYOUT == 1 && is_outer(p)) return run_outer<T>(p, pointers, sizes, begin, end, scratch);
  if (GX_B_LAYOUT == 0 && GX_M >= 0 && GX_M <= kDirectRows) return;
  if (GX_B_LAYOUT == 1 && GX_M == 1) return;
  run_blocked<T>(p, pointers, sizes, begin, end, scratch);
}

}  // namespace graphex::kernels::matmul

#define GX_MATMUL_ENTRY(name, type)                                                                                 \
  extern "C" int64_t name##_tiles(const int64_t* sizes) { return graphex::kernels::matmul::tiles<type>(sizes); }    \
  extern "C" int64_t name##_divisible(const int64_t* sizes) {                                                       \
    return graphex::kernels::matmul::is_direct(graphex::kernels::matmul::Problem::from<type>(sizes));               \
  }                                                                                                                 \
  extern "C" void name(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) { \
    graphex::kernels::matmul::run<type>(pointers, sizes, begin, end, worker);                                       \
  }
