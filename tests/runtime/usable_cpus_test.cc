#include "graphex/runtime/cpu/usable_cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace graphex::runtime {
namespace {

namespace fs = std::filesystem;

class CgroupQuota : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / (std::string("graphex_cgroup_") + test->name());
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path.substr(1);
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void mount_v2(const std::string& group = "/") {
    write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n30 22 0:26 " + group +
                                      " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate");
  }
  double quota() { return cgroup_cpu_quota(root_.string()); }

  fs::path root_;
};

TEST_F(CgroupQuota, NoneWithoutControlGroups) { EXPECT_EQ(quota(), 0); }

TEST_F(CgroupQuota, Version2TakesTheTightestOfTheAncestors) {
  mount_v2();
  write("/proc/self/cgroup", "0::/system.slice/job.service/inner");
  write("/sys/fs/cgroup/system.slice/job.service/inner/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/system.slice/job.service/cpu.max", "250000 100000");
  EXPECT_EQ(quota(), 2.5);
  write("/sys/fs/cgroup/system.slice/cpu.max", "50000 100000");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CgroupQuota, Version2InAContainerReadsTheMountItself) {
  mount_v2();
  write("/proc/self/cgroup", "0::/");
  write("/sys/fs/cgroup/cpu.max", "300000 100000");
  EXPECT_EQ(quota(), 3);
  write("/proc/self/cgroup", "0::/docker/0123abcd");  // the host's path, absent in the container
  EXPECT_EQ(quota(), 3);
}

TEST_F(CgroupQuota, MountOfASubgroupStripsItsPath) {
  mount_v2("/docker/0123abcd");
  write("/proc/self/cgroup", "0::/docker/0123abcd/job");
  write("/sys/fs/cgroup/job/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CgroupQuota, Version1UsesTheCpuController) {
  write("/proc/self/mountinfo",
        "31 22 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "32 22 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct");
  write("/proc/self/cgroup", "5:cpuset:/elsewhere\n4:cpu,cpuacct:/job");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000");
  EXPECT_EQ(quota(), 4);
}

TEST_F(CgroupQuota, IgnoresBrokenFiles) {
  mount_v2();
  write("/proc/self/cgroup", "nonsense\n0::job\n0::/job");
  write("/sys/fs/cgroup/job/cpu.max", "lots of it");
  EXPECT_EQ(quota(), 0);
}

TEST(UsableCpus, FollowsTheAffinityMask) {
  EXPECT_GE(usable_cpus(), 1);
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(usable_cpus(), 1);
  }).join();
}

}  // namespace
}  // namespace graphex::runtime
