#include "graphex/runtime/cpu/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace graphex::runtime {
namespace {

int affinity_cpus() {
  // The kernel refuses a mask that is shorter than its own: 1024 CPUs, then more.
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 4) {
    std::vector<cpu_set_t> mask(cpus / (8 * sizeof(cpu_set_t)));
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

// "max 100000" or "150000 100000" (v2).
double quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period && quota > 0 && period > 0 ? quota / period : 0;
}

// -1 means no quota (v1).
double quota_v1(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : 0;
}

double tighter(double a, double b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

// A quota holds for all groups below its own. In a container the path may be the host's, absent here: then only the
// mount's own files count, which is what the container sees as its group.
double tightest_up_to(const std::string& mount, std::string path, double (*quota)(const std::string&)) {
  double result = 0;
  while (path.size() > 1) {
    result = tighter(result, quota(mount + path));
    const size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  return tighter(result, quota(mount));
}

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

struct Mount {
  std::string folder;  // where it is seen
  std::string group;   // the group that is seen there
};

// Where a control group hierarchy is mounted: v2's, or the one of v1 that has the cpu controller.
Mount find_mount(const std::string& root, bool v2) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string skipped, group, folder, type, source, options;
    fields >> skipped >> skipped >> skipped >> group >> folder;
    while (fields >> skipped && skipped != "-") {
    }
    fields >> type >> source >> options;
    if (v2 ? type == "cgroup2" : type == "cgroup" && has_word(options, "cpu")) return {root + folder, group};
  }
  return {};
}

double quota_of(const std::string& root, bool v2, std::string path) {
  const Mount mount = find_mount(root, v2);
  if (mount.folder.empty()) return 0;
  if (path == mount.group || path.starts_with(mount.group + "/")) path = path.substr(mount.group.size());
  return tightest_up_to(mount.folder, path, v2 ? quota_v2 : quota_v1);
}

}  // namespace

// Lines are "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1).
double cgroup_cpu_quota(const std::string& root) {
  double result = 0;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty() || has_word(controllers, "cpu")) {
      result = tighter(result, quota_of(root, controllers.empty(), path));
    }
  }
  return result;
}

int usable_cpus() {
  const int affinity = std::max(1, affinity_cpus());
  const double quota = cgroup_cpu_quota();
  return quota == 0 ? affinity : std::min(affinity, std::max(1, static_cast<int>(std::ceil(quota))));
}

}  // namespace graphex::runtime
