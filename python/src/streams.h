// Streams and events for Python, and the stream that a thread's replays go to.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "graphex/runtime/stream.h"

namespace graphex::python {

class Call;

// Waits, without the interpreter's lock, for what is queued on the calling thread's current stream, and throws its
// failure. What the thread does next then sees the results.
void settle();
// How many workers a replay on this thread may have where `wanted` are asked for: graphex.scope.limit_core_num.
int within_core_limit(int wanted);
// What a queued call holds, which only a thread with the interpreter's lock may let go of.
void release_later(std::unique_ptr<Call> call);
// Does so now; the calling thread has the lock.
void release_now();

void define_streams(nanobind::module_& m);

}  // namespace graphex::python
