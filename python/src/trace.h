// The trace of all replays of the process between start and stop: graphex.trace.
#pragma once

#include <nanobind/nanobind.h>

#include "graphex/runtime/program.h"

namespace graphex::python {

// Whether replays are to be traced now.
bool tracing();
// Keeps what a traced replay of the frame noted, and empties it. Needs no interpreter's lock.
void keep_trace(const runtime::Program& program, runtime::Frame& frame);

void define_trace(nanobind::module_& m);
// What a program consists of, as plain data: its steps, buffers, inputs, sections; sizes are of the last plan.
nanobind::dict describe(const runtime::Program& program);

}  // namespace graphex::python
