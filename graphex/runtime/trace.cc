#include "graphex/runtime/trace.h"

#include <unistd.h>

namespace graphex::runtime {

int64_t trace_thread() { return gettid(); }

}  // namespace graphex::runtime
