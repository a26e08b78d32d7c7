// The contract between the runtime, which calls kernels, and kernels/ and codegen/, which make them.
//
// A kernel is a pure function of raw pointers and sizes. Work is cut into `tiles`; one call computes the tiles
// [begin, end) and nothing else, so any split over workers gives the same bits. Kernels never throw, allocate or
// block. Plain C so that the same header serves C++, bitcode and generated code.
#pragma once

#include <stdint.h>

// Scratch that each worker owns, in bytes; 64-byte aligned; contents are undefined on entry of a kernel.
#define GX_SCRATCH_BYTES (4 << 20)

// Why a kernel could not do what its inputs asked for. The first report of a replay wins; the rest are dropped.
enum GxFault : int32_t {
  GX_OK = 0,
  GX_INDEX_OUT_OF_RANGE = 1,   // a = the index, b = the size of the indexed dimension, c = the dimension
  GX_LENGTH_OUT_OF_RANGE = 2,  // a = the length, b = keys that the block table has room for, c = the sequence
  GX_BLOCK_OUT_OF_RANGE = 3,   // a = the block, b = blocks of the cache, c = the sequence
};

struct GxStatus {
  int32_t fault;   // GxFault; set by compare-and-swap from GX_OK
  int32_t launch;  // index of the launch that failed, filled by the runtime
  int64_t a, b, c;
};

struct GxWorker {
  void* scratch;     // GX_SCRATCH_BYTES of this worker's own
  GxStatus* status;  // shared by the workers of a replay
  int32_t id;        // 0 .. count-1
  int32_t count;     // workers in this replay
  int32_t piece;     // how many ranges of this launch the worker has done; what they left in scratch is still there
};

// pointers: operands in the order of the kernel's contract; sizes: int64 values in the order of its contract.
typedef void (*GxKernel)(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker);
// Host function: how many tiles the kernel has for these sizes. 0 when there is nothing to do.
typedef int64_t (*GxTiles)(const int64_t* sizes);
// Host function: bytes of workspace the kernel needs for these sizes; absent when it needs none.
typedef int64_t (*GxWorkspace)(const int64_t* sizes);
// Host function: whether the kernel's tiles may be called for in many short ranges, which lets workers help each other;
// absent, or 0, where each call prepares something that its tiles share.
typedef int64_t (*GxDivisible)(const int64_t* sizes);
