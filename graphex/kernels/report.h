// How a kernel says that its inputs ask for what can't be done.
#pragma once

#include "graphex/base/kernel_abi.h"

namespace graphex::kernels {

// The first report of a replay stays; a, b and c as GxFault says.
[[maybe_unused]] static __attribute__((noinline, cold)) void report(GxWorker* worker, GxFault fault, int64_t a,
                                                                    int64_t b, int64_t c) {
  GxStatus* status = worker->status;
  int32_t none = GX_OK;
  if (!__atomic_compare_exchange_n(&status->fault, &none, static_cast<int32_t>(fault), false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED))
    return;
  status->a = a;
  status->b = b;
  status->c = c;
}

}  // namespace graphex::kernels
