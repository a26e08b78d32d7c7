#include "graphex/runtime/stream.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "graphex/base/error.h"

namespace graphex::runtime {
namespace {

using std::chrono::milliseconds;

void synchronize(Stream& stream) {
  auto moment = std::make_shared<Moment>();
  stream.mark(moment);
  moment->wait();
  stream.raise_failure();
}

TEST(StreamTest, WorkRunsInOrderOnTheStreamsOwnThread) {
  Stream stream({});
  std::vector<int> order;
  std::thread::id thread;
  for (int i = 0; i < 100; ++i)
    stream.enqueue([&, i](Team&) {
      order.push_back(i);
      thread = std::this_thread::get_id();
    });
  synchronize(stream);
  EXPECT_TRUE(stream.idle());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(StreamTest, IsBusyUntilItsWorkIsDone) {
  Stream stream({});
  std::atomic<bool> go{false};
  EXPECT_TRUE(stream.idle());
  stream.enqueue([&](Team&) {
    while (!go) std::this_thread::yield();
  });
  Event event;
  EXPECT_TRUE(event.query());
  event.record(&stream);
  EXPECT_FALSE(stream.idle());
  EXPECT_FALSE(event.query());
  EXPECT_FALSE(event.moment()->wait_for(milliseconds(5)));
  go = true;
  event.moment()->wait();
  EXPECT_TRUE(event.query());
}

TEST(StreamTest, TheTeamHasTheStreamsCores) {
  Stream stream({3, {}, 0});
  std::atomic<int> workers{0};
  stream.enqueue([&](Team& team) { team.run(8, [&](GxWorker& worker) { workers += worker.count == 3; }); });
  synchronize(stream);
  EXPECT_EQ(workers, 3);
}

TEST(StreamTest, ThreadsRunOnTheCpusAskedFor) {
  cpu_set_t usable;
  sched_getaffinity(0, sizeof usable, &usable);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &usable)) ++cpu;
  Stream stream({0, {cpu}, 0});
  int count = 0;
  stream.enqueue([&](Team&) {
    cpu_set_t own;
    sched_getaffinity(0, sizeof own, &own);
    count = CPU_ISSET(cpu, &own) ? CPU_COUNT(&own) : 0;
  });
  synchronize(stream);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(stream.settings().cores, 1);
}

TEST(StreamTest, LowerPriorityIsNicer) {
  Stream stream({0, {}, 2});
  const int before = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  int nice = 0;
  stream.enqueue([&](Team&) { nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); });
  synchronize(stream);
  EXPECT_EQ(nice, std::min(before + 2, 19));
}

TEST(StreamTest, RefusesCoresThatAreNot) {
  EXPECT_THROW(Stream({-1, {}, 0}), Error);
  EXPECT_THROW(Stream({0, {100000}, 0}), Error);
}

TEST(StreamTest, AWaitIsForTheMomentThatTheEventStoodForThen) {
  Stream first({}), second({});
  std::atomic<bool> go{false};
  Event event;
  event.record(&first);
  first.enqueue([&](Team&) {
    while (!go) std::this_thread::yield();
  });
  second.wait(event.moment());
  event.record(&first);  // later than what `second` waits for
  bool ran = false;
  second.enqueue([&](Team&) { ran = true; });
  synchronize(second);
  EXPECT_TRUE(ran);
  EXPECT_FALSE(event.query());
  go = true;
  synchronize(first);
}

TEST(StreamTest, TimeBetweenEvents) {
  Stream stream({});
  Event from, to, never;
  EXPECT_THROW(Event::milliseconds(from, to), Error);
  from.record(&stream);
  stream.enqueue([](Team&) { std::this_thread::sleep_for(milliseconds(20)); });
  to.record(&stream);
  EXPECT_THROW(Event::milliseconds(from, to), Error);
  to.moment()->wait();
  EXPECT_GE(Event::milliseconds(from, to), 20);
  EXPECT_THROW(Event::milliseconds(from, never), Error);
}

TEST(StreamTest, AFailureDropsWhatIsBehindUntilItIsTold) {
  Stream first({}), second({});
  int ran = 0;
  first.enqueue([](Team&) { fail(ErrorKind::kIndex, "no such row"); });
  first.enqueue([&](Team&) { ++ran; });
  Event event;
  event.record(&first);
  second.wait(event.moment());
  second.enqueue([&](Team&) { ++ran; });
  Event end;
  end.record(&second);
  end.moment()->wait();
  EXPECT_EQ(ran, 0);
  EXPECT_THROW(end.moment()->raise_failure(), Error);
  synchronize(first);  // told already
  second.enqueue([&](Team&) { ++ran; });
  synchronize(second);
  EXPECT_EQ(ran, 1);
}

TEST(StreamTest, DestructionWaitsForTheWork) {
  std::atomic<int> ran{0};
  {
    Stream stream({});
    for (int i = 0; i < 5; ++i)
      stream.enqueue([&](Team&) {
        std::this_thread::sleep_for(milliseconds(1));
        ++ran;
      });
  }
  EXPECT_EQ(ran, 5);
}

TEST(StreamTest, TheChildOfAForkStartsAnew) {
  Stream stream({2, {}, 0});
  stream.enqueue([](Team& team) { team.run(2, [](GxWorker&) {}); });
  synchronize(stream);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::atomic<int> ran{0};
    stream.enqueue([&](Team& team) { team.run(2, [&](GxWorker&) { ++ran; }); });
    synchronize(stream);
    _exit(ran == 2 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Random work on four streams, ordered by events alone: every value is what the order of issue gives.
TEST(StreamTest, RandomProgramsEqualTheSequentialRun) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::unique_ptr<Stream> streams[4];
    for (auto& stream : streams) stream = std::make_unique<Stream>(StreamSettings{1, {}, 0});
    std::vector<int64_t> cells(6, 1), expected(6, 1);
    Event last[6];  // the last toucher of each cell
    for (int i = 0; i < 60; ++i) {
      Stream& stream = *streams[random() % 4];
      const size_t from = random() % 6, to = random() % 6;
      const unsigned late = random() % 40;
      for (const size_t cell : {from, to})
        if (const auto moment = last[cell].moment()) stream.wait(moment);
      stream.enqueue([&cells, from, to, late, i](Team&) {
        if (late < 3) std::this_thread::sleep_for(std::chrono::microseconds(late * 100));
        cells[to] = cells[to] * 3 + cells[from] + i;
      });
      for (const size_t cell : {from, to}) last[cell].record(&stream);
      expected[to] = expected[to] * 3 + expected[from] + i;
    }
    for (auto& stream : streams) synchronize(*stream);
    EXPECT_EQ(cells, expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace graphex::runtime
