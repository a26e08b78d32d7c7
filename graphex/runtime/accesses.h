// What launches touch, as the plan sees it: buffers of the caller as a whole, ranges of the arena.
#pragma once

#include "graphex/runtime/program.h"

namespace graphex::runtime {

struct Access {
  int space;  // buffer number, or -1 for the arena
  int64_t begin, end;
  bool written, single;  // single: by a launch of one tile, which the first worker runs
};

// Whether the later of two accesses has to wait for the earlier one.
bool conflict(const Access& a, const Access& b);
Access access_of(const ProgramParts& parts, const Plan& plan, const Pointer& pointer, bool single);

}  // namespace graphex::runtime
