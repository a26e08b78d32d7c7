// Compiled to an object file that jit_test.cc links: a kernel that calls what nobody defines.
#include "graphex/base/kernel_abi.h"

extern "C" {

int64_t gx_nobody_defines_this(const int64_t* sizes);

__attribute__((visibility("default"))) void gx_caller(void* const*, const int64_t* sizes, int64_t, int64_t, GxWorker*) {
  gx_nobody_defines_this(sizes);
}
}
