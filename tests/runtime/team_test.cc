#include "graphex/runtime/team.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "graphex/base/error.h"
#include "graphex/runtime/cpu/openmp.h"

// For this program: threads in the child of a fork and allocations that fail are the point of some tests.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0:allocator_may_return_null=1"; }

namespace graphex::runtime {
namespace {

constexpr int kWorkers = 4;

// The thread sanitizer can't see the synchronisation inside a libgomp that wasn't built with it.
#if defined(__SANITIZE_THREAD__)
constexpr bool kCanCheckOpenMp = false;
#elif defined(__has_feature)
constexpr bool kCanCheckOpenMp = !__has_feature(thread_sanitizer);
#else
constexpr bool kCanCheckOpenMp = true;
#endif

// Every test runs on both kinds of team, spinning as always and not at all (so that the parking is what is tested).
struct Setup {
  bool openmp;
  int spins;
};

class TeamTest : public testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (GetParam().openmp && !kCanCheckOpenMp) GTEST_SKIP() << "OpenMP under the thread sanitizer";
    if (GetParam().openmp && !dlopen("libgomp.so.1", RTLD_NOW)) GTEST_SKIP() << "libgomp.so.1 isn't installed";
    team_ = make(kWorkers);
    ASSERT_NE(team_, nullptr);
  }
  std::unique_ptr<Team> make(int workers) {
    return GetParam().openmp ? make_openmp_team(workers, GetParam().spins) : make_own_team(workers, GetParam().spins);
  }

  std::unique_ptr<Team> team_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, TeamTest,
                         testing::Values(Setup{false, kSpinPauses}, Setup{false, 0}, Setup{true, kSpinPauses},
                                         Setup{true, 0}),
                         [](const auto& info) {
                           return std::string(info.param.openmp ? "OpenMp" : "Own") +
                                  (info.param.spins ? "Spinning" : "Parking");
                         });

TEST_P(TeamTest, RunsEachWorkerOnce) {
  for (int n : {4, 2, 3, 1, 4, 100, 0}) {
    const int expected = std::min(std::max(n, 1), kWorkers);
    std::atomic<int> ids[kWorkers] = {};
    std::atomic<int> wrong_count{0};
    team_->run(n, [&](GxWorker& worker) {
      ++ids[worker.id];
      wrong_count += worker.count != expected;
    });
    for (int id = 0; id < kWorkers; ++id) EXPECT_EQ(ids[id], id < expected) << "worker " << id << " of " << n;
    EXPECT_EQ(wrong_count, 0);
  }
}

TEST_P(TeamTest, CallerIsWorkerZero) {
  std::thread::id zero;
  team_->run(kWorkers, [&](GxWorker& worker) {
    if (worker.id == 0) zero = std::this_thread::get_id();
  });
  EXPECT_EQ(zero, std::this_thread::get_id());
}

TEST_P(TeamTest, HandsOutStatusAndDisjointScratch) {
  GxStatus status{};
  std::atomic<int> bad{0};
  team_->run(
      kWorkers,
      [&](GxWorker& worker) {
        bad += worker.status != &status;
        bad += reinterpret_cast<uintptr_t>(worker.scratch) % 64 != 0;
        auto* bytes = static_cast<unsigned char*>(worker.scratch);
        std::memset(bytes, worker.id, GX_SCRATCH_BYTES);
        team_->barrier().wait(worker);
        for (int i = 0; i < GX_SCRATCH_BYTES; i += 1021) bad += bytes[i] != worker.id;
      },
      &status);
  EXPECT_EQ(bad, 0);
}

// Each worker writes its cell, all meet, each reads its neighbour's; random delays on random workers.
TEST_P(TeamTest, BarriersHoldUnderRandomDelays) {
  constexpr int kRuns = 40, kBarriers = 25;
  std::atomic<int> wrong{0};
  for (int run = 0; run < kRuns; ++run) {
    int cells[2][kWorkers] = {};
    team_->run(2 + run % (kWorkers - 1), [&](GxWorker& worker) {
      std::mt19937 random(run * kWorkers + worker.id);
      for (int step = 0; step < kBarriers; ++step) {
        if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        cells[step % 2][worker.id] = run * kBarriers + step;
        team_->barrier().wait(worker);
        wrong += cells[step % 2][(worker.id + 1) % worker.count] != run * kBarriers + step;
      }
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(TeamTest, ManyShortRunsOfChangingSize) {
  long sums[kWorkers * 32] = {};
  long expected = 0;
  for (int run = 0; run < 300; ++run) {
    const int n = 1 + run % kWorkers;
    expected += n;
    team_->run(n, [&](GxWorker& worker) { ++sums[worker.id * 32]; });
  }
  EXPECT_EQ(sums[0] + sums[32] + sums[64] + sums[96], expected);
}

TEST_P(TeamTest, NestedRunComputesEverything) {
  std::atomic<int> inner_done{0}, bad{0};
  team_->run(kWorkers, [&](GxWorker& outer) {
    team_->run(kWorkers, [&](GxWorker& inner) {
      bad += inner.count != 1 || inner.id != 0 || inner.scratch == outer.scratch;
      team_->barrier().wait(inner);
      team_->run(kWorkers, [&](GxWorker& third) { bad += third.count != 1 || third.scratch == inner.scratch; });
      ++inner_done;
    });
    team_->barrier().wait(outer);
  });
  EXPECT_EQ(inner_done, kWorkers);
  EXPECT_EQ(bad, 0);
}

// Every caller's work is complete when run() returns, whoever got the team.
TEST_P(TeamTest, ManyCallersAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int run = 0; run < 200; ++run) {
        std::vector<int> items(64, 0);
        team_->run(kWorkers, [&](GxWorker& worker) {
          for (size_t i = worker.id; i < items.size(); i += worker.count) items[i] = 1;
          team_->barrier().wait(worker);
          if (worker.id == 0) wrong += std::count(items.begin(), items.end(), 1) != 64;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

#if defined(__x86_64__)
// Denormal flags and the rounding mode are the caller's on every worker; nobody's mode is changed for good.
TEST_P(TeamTest, CarriesTheCallersFloatingPointMode) {
  constexpr unsigned kControl = ~0x3Fu, kDenormalsAreZero = 0x8040, kRoundUp = 0x4000;
  const unsigned before = _mm_getcsr();
  std::atomic<int> wrong{0};
  for (unsigned mode : {before | kDenormalsAreZero, before | kRoundUp, before}) {
    const unsigned wanted = mode & kControl;
    _mm_setcsr(mode);
    team_->run(kWorkers, [&](GxWorker& worker) {
      wrong += (_mm_getcsr() & kControl) != wanted;
      if (worker.id % 2 == 0) _mm_setcsr(_mm_getcsr() ^ kDenormalsAreZero);
    });
    EXPECT_EQ(_mm_getcsr() & kControl, wanted);
  }
  _mm_setcsr(before);
  EXPECT_EQ(wrong, 0);
}
#endif

bool child_succeeds(const auto& in_child) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(in_child() ? 0 : 1);
  }
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

bool works(Team& team) {
  std::atomic<int> workers{0};
  team.run(kWorkers, [&](GxWorker& worker) {
    ++workers;
    team.barrier().wait(worker);
  });
  return workers == kWorkers;
}

TEST_P(TeamTest, WorksInTheChildOfAFork) {
  ASSERT_TRUE(works(*team_));
  EXPECT_TRUE(child_succeeds([&] {
    if (!works(*team_) || !works(*team_)) return false;
    if (!child_succeeds([&] { return works(*team_); })) return false;
    team_.reset();
    return true;
  }));
  EXPECT_TRUE(works(*team_));
}

TEST_P(TeamTest, IsFreeInTheChildOfAForkDuringARun) {
  std::atomic<bool> running{false}, leave{false};
  std::thread caller([&] {
    team_->run(kWorkers, [&](GxWorker& worker) {
      if (worker.id == 0) running = true;
      while (!leave) std::this_thread::yield();
    });
  });
  while (!running) std::this_thread::yield();
  EXPECT_TRUE(child_succeeds([&] { return works(*team_); }));
  leave = true;
  caller.join();
  EXPECT_TRUE(works(*team_));
}

// The workers may be parked or spinning when the process ends; it must end all the same.
TEST_P(TeamTest, ProcessEndsWithALiveTeam) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        alarm(30);
        static Team* team = make(kWorkers).release();
        exit(works(*team) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(OwnTeam, WorkersBlockSignalsOfTheProgram) {
  static std::atomic<int> handled_elsewhere{0};
  static pthread_t main_thread;
  main_thread = pthread_self();
  auto* before = signal(SIGUSR1, [](int) { handled_elsewhere += !pthread_equal(pthread_self(), main_thread); });
  const auto team = make_own_team(kWorkers);
  std::atomic<int> unblocked{0};
  team->run(kWorkers, [&](GxWorker& worker) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    if (worker.id > 0) unblocked += !sigismember(&mask, SIGUSR1) || !sigismember(&mask, SIGINT);
    if (worker.id == 1) kill(getpid(), SIGUSR1);
  });
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGUSR1));
  EXPECT_EQ(unblocked, 0);
  EXPECT_EQ(handled_elsewhere, 0);
  signal(SIGUSR1, before);
}

TEST(OwnTeam, MadeAndDroppedWithoutARun) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(make_own_team(kWorkers)->size(), kWorkers);
  for (int i = 0; i < 100; ++i) {
    const auto team = make_own_team(kWorkers);
    EXPECT_TRUE(works(*team));
  }
}

TEST(OwnTeam, RefusesASizeBelowOne) {
  EXPECT_THROW(make_own_team(0), Error);
  EXPECT_THROW(make_own_team(-3), Error);
}

// Inside somebody else's parallel region OpenMP gives one thread where more are asked for.
TEST(OpenMpTeam, ComputesEverythingInsideAnOpenMpRegion) {
  if (!kCanCheckOpenMp || !dlopen("libgomp.so.1", RTLD_NOW)) GTEST_SKIP() << "no OpenMP that can be checked";
  const auto openmp = find_loaded_openmp();
  ASSERT_TRUE(openmp);
  std::atomic<int> right{0};
  openmp->parallel(
      [](void* right) {
        const auto team = make_openmp_team(kWorkers);
        std::vector<int> items(64, 0);
        team->run(kWorkers, [&](GxWorker& worker) {
          for (size_t i = worker.id; i < items.size(); i += worker.count) items[i] = 1;
          team->barrier().wait(worker);
        });
        *static_cast<std::atomic<int>*>(right) += std::count(items.begin(), items.end(), 1) == 64;
      },
      &right, 2, 0);
  EXPECT_EQ(right, 2);
}

}  // namespace
}  // namespace graphex::runtime
