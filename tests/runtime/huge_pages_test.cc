#include "graphex/runtime/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

namespace graphex::runtime {
namespace {

constexpr size_t kExtent = size_t{2} << 20;

// Four extents in small pages, each page written.
class HugePagesTest : public testing::Test {
 protected:
  void SetUp() override {
    mapping_ = mmap(nullptr, 5 * kExtent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapping_, MAP_FAILED);
    first_ = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(mapping_) + kExtent - 1) / kExtent * kExtent);
    ASSERT_EQ(madvise(first_, 4 * kExtent, MADV_NOHUGEPAGE), 0);
    for (size_t at = 0; at < 4 * kExtent; ++at) first_[at] = value_at(at);
    ASSERT_EQ(madvise(first_, 4 * kExtent, MADV_HUGEPAGE), 0);
    if (move_to_huge_pages({{first_, kExtent}}) == 0) GTEST_SKIP() << "this system has no huge pages to give";
  }
  void TearDown() override { munmap(mapping_, 5 * kExtent); }

  static char value_at(size_t at) { return static_cast<char>(at * 31 + at / 4096); }
  void expect_contents() const {
    for (size_t at = 0; at < 4 * kExtent; ++at) ASSERT_EQ(first_[at], value_at(at)) << at;
  }

  void* mapping_ = nullptr;
  char* first_ = nullptr;
};

TEST_F(HugePagesTest, KeepsContents) {
  EXPECT_EQ(move_to_huge_pages({{first_, 4 * kExtent}}), 4 * kExtent);
  expect_contents();
  EXPECT_EQ(move_to_huge_pages({{first_, 4 * kExtent}}), 4 * kExtent);
}

TEST_F(HugePagesTest, MovesWhatIsCoveredByHalf) {
  EXPECT_EQ(move_to_huge_pages({{first_ + kExtent + kExtent / 2, kExtent}}), 2 * kExtent);
  EXPECT_EQ(move_to_huge_pages({{first_ + 3 * kExtent, kExtent / 2 - 1}}), 0u);
  EXPECT_EQ(move_to_huge_pages({{first_ + 3 * kExtent, 4096}, {first_ + 3 * kExtent, kExtent / 2 - 1}}), 0u);
  EXPECT_EQ(
      move_to_huge_pages({{first_ + 3 * kExtent + kExtent / 2, kExtent / 4}, {first_ + 3 * kExtent, kExtent / 2}}),
      kExtent);
  expect_contents();
}

TEST_F(HugePagesTest, LeavesAloneWhatIsNotInMemory) {
  ASSERT_EQ(madvise(first_ + kExtent, kExtent, MADV_DONTNEED), 0);
  EXPECT_EQ(move_to_huge_pages({{first_ + kExtent, kExtent}}), 0u);
  EXPECT_EQ(move_to_huge_pages({}), 0u);
  EXPECT_EQ(move_to_huge_pages({{nullptr, 0}}), 0u);
}

TEST_F(HugePagesTest, LeavesAloneWhatAForkShares) {
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(hold[1]);
    char end;
    _exit(read(hold[0], &end, 1) == 0 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  close(hold[0]);
  EXPECT_EQ(move_to_huge_pages({{first_ + kExtent, 3 * kExtent}}), 0u);
  close(hold[1]);
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(move_to_huge_pages({{first_ + kExtent, 3 * kExtent}}), 3 * kExtent);
  expect_contents();
}

}  // namespace
}  // namespace graphex::runtime
