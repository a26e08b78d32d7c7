// How many CPUs this process may keep busy: what its affinity mask and its control groups allow.
#pragma once

#include <string>

namespace graphex::runtime {

// The smaller of the calling thread's affinity mask and the CPU quota (rounded up), at least 1. Reads files: 50 us or
// so.
int usable_cpus();

// The tightest CPU quota of the control groups (v1 or v2) that the process is in, in CPUs, or 0 if there is none.
// `root` is put before every path that is read; for tests.
double cgroup_cpu_quota(const std::string& root = "");

}  // namespace graphex::runtime
