// Tells whether this process is a fork of the one that made an object: a child has none of its parent's threads.
#pragma once

#include <cstdint>

namespace graphex::runtime {

// 1 in the process that loaded the library, one more in each generation of children.
uint32_t fork_generation();

}  // namespace graphex::runtime
