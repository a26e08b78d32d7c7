// Programs whose launches lie on several lanes, of kernels that are late at random: each value is what the tape's order
// gives, however many workers there are.
#include "graphex/runtime/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "graphex/runtime/program.h"

namespace graphex::runtime {
namespace {

constexpr int64_t kElements = 24;
std::atomic<uint32_t> delays{0};  // 0: none

void be_late() {
  uint32_t state = delays.load(std::memory_order_relaxed);
  if (state == 0) return;
  state = state * 1664525 + 1013904223;
  delays.store(state | 1, std::memory_order_relaxed);
  if ((state >> 24) % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(state >> 16 & 63));
}

// to[i] = 3 a[n - 1 - i] + b[i] + k, by as many tiles as sizes[1] says.
void mix(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker*) {
  const auto *a = static_cast<const int64_t*>(pointers[0]), *b = static_cast<const int64_t*>(pointers[1]);
  auto* to = static_cast<int64_t*>(pointers[2]);
  be_late();
  const int64_t size = kElements / sizes[1];
  for (int64_t i = begin * size; i < end * size; ++i) to[i] = 3 * a[kElements - 1 - i] + b[i] + sizes[0];
}
int64_t tiles_of(const int64_t* sizes) { return sizes[1]; }
int64_t yes(const int64_t*) { return 1; }

struct NoHost final : Host {
  void* allocate(int, const Frame&) override { return nullptr; }
  void call(const Island&, Frame&) override {}
  void release(int) override {}
};

class Builder {
 public:
  explicit Builder(int inputs) {
    parts_.inputs = inputs;
    for (int i = 0; i < inputs; ++i) parts_.buffers.push_back({.kind = BufferKind::kInput, .input = i});
  }

  int arena() {
    parts_.buffers.push_back({.kind = BufferKind::kArena, .bytes = parts_.sizes.constant(kElements * 8)});
    return static_cast<int>(parts_.buffers.size()) - 1;
  }

  void step(int lane, int a, int b, int to, int64_t tiles = 1, int round = 0) {
    const int index = static_cast<int>(parts_.steps.size());
    for (const int buffer : {a, b, to}) {
      Buffer& touched = parts_.buffers[buffer];
      if (touched.first < 0) touched.first = index;
      touched.last = index;
    }
    const SizeId zero = parts_.sizes.constant(0), bytes = parts_.sizes.constant(kElements * 8);
    Launch launch;
    launch.kernel = mix;
    launch.tiles = tiles_of;
    launch.divisible = tiles > 8 ? yes : nullptr;
    launch.name = "mix";
    launch.pointers = {{a, zero, bytes}, {b, zero, bytes}, {to, zero, bytes, true}};
    launch.sizes = {parts_.sizes.constant(index), parts_.sizes.constant(tiles)};
    launch.lane = lane;
    launch.round = round;
    parts_.steps.push_back(std::move(launch));
  }

  ProgramParts parts_;
};

std::vector<int64_t> replay(const Program& program, Team& team, int workers) {
  const int inputs = program.parts().inputs;
  std::vector<int64_t> memory(static_cast<size_t>(inputs) * kElements);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<int64_t>(i * i % 101);
  NoHost host;
  auto frame = program.take_frame({});
  for (int i = 0; i < inputs; ++i) frame->bases[i] = reinterpret_cast<char*>(memory.data() + i * kElements);
  program.run(*frame, team, workers, host);
  program.give_back(std::move(frame));
  return memory;
}

// Values flow from the inputs through the arena and back; every value is read somewhere, some memory is written often.
ProgramParts random_program(unsigned seed) {
  std::mt19937 random(seed);
  Builder builder(4);
  const int lanes = 1 + static_cast<int>(random() % 4);
  std::vector<int> live{0, 1, 2, 3};
  int round = 0;
  for (int i = 0; i < 40; ++i) {
    const auto any = [&] { return live[random() % live.size()]; };
    const int lane = random() % 5 == 0 ? 0 : static_cast<int>(random()) & 3;
    const int a = any(), b = any();
    int to = static_cast<int>(random() % 4);
    if (random() % 3 != 0) live.push_back(to = builder.arena());
    if (to == a) continue;  // reads it backwards
    const int64_t tiles[] = {1, 1, 4, 12};
    builder.step(lane % lanes, a, b, to, tiles[random() % 4], round);
    if (live.size() > 9) live.erase(live.begin() + 4 + static_cast<int>(random() % (live.size() - 4)));
    if (random() % 12 == 0) ++round;
  }
  for (const int value : std::vector<int>(live.begin() + 4, live.end())) builder.step(0, value, 0, 1);
  return std::move(builder.parts_);
}

TEST(Lanes, RandomProgramsEqualTheSequentialRun) {
  const auto team = make_own_team(5);
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Program program(random_program(seed));
    delays = 0;
    const std::vector<int64_t> expected = replay(program, *team, 1);
    delays = seed * 2654435761u | 1;
    for (const int workers : {2, 3, 5}) ASSERT_EQ(replay(program, *team, workers), expected) << "seed " << seed;
  }
  delays = 0;
}

// Two branches of the kind that a fork and join records: one stream's launches, then the other's, then what joins them.
ProgramParts two_branches(int length) {
  Builder builder(3);
  const int fork = builder.arena();
  builder.step(0, 0, 0, fork);
  int ends[2];
  for (const int lane : {1, 0}) {
    int from = fork;
    for (int i = 0; i < length; ++i) {
      const int to = builder.arena();
      builder.step(lane, from, from, to);
      from = to;
    }
    ends[lane] = from;
  }
  builder.step(0, ends[0], ends[1], 1);
  builder.step(0, 1, 1, 2);
  return std::move(builder.parts_);
}

TEST(Lanes, BranchesOfAForkWaitForNothingBetween) {
  const Program program(two_branches(6));
  replay(program, *make_own_team(2), 2);
  const Plan plan = program.last_plan();
  ASSERT_EQ(plan.sections.size(), 1u);
  EXPECT_EQ(plan.sections[0].begin, 1);
  EXPECT_EQ(plan.sections[0].end, 13);
  EXPECT_EQ(plan.sections[0].lanes, (std::vector<int>{0, 1}));
  for (const auto& waits : plan.waits) EXPECT_TRUE(waits.empty());
  // Each branch reuses its own memory: two values each, and the one before the fork.
  EXPECT_EQ(plan.arena_bytes, 5 * 256);
}

TEST(Lanes, AWaitForALaterStepCoversEarlierOnes) {
  Builder builder(6);
  builder.step(0, 0, 0, 1);
  builder.step(1, 1, 1, 2);
  builder.step(1, 2, 2, 3);
  builder.step(0, 0, 0, 4);
  builder.step(2, 3, 3, 5);  // waits for step 2
  builder.step(2, 2, 5, 0);  // step 1 is covered by that; step 3 reads what this writes
  const Program program(std::move(builder.parts_));
  replay(program, *make_own_team(3), 3);
  const Plan plan = program.last_plan();
  ASSERT_EQ(plan.sections.size(), 1u);
  ASSERT_EQ(plan.waits[4].size(), 1u);
  EXPECT_EQ(plan.waits[4][0].step, 2);
  ASSERT_EQ(plan.waits[5].size(), 1u);
  EXPECT_EQ(plan.waits[5][0].lane, 0);
  EXPECT_EQ(plan.waits[5][0].step, 3);
}

TEST(Lanes, ASectionEndsWhereTheUserJoinsIt) {
  Builder builder(4);
  builder.step(1, 0, 0, 1);  // which nothing reads
  builder.step(0, 0, 0, 2, 4, 0);
  builder.step(0, 2, 2, 3, 4, 1);
  const Program program(std::move(builder.parts_));
  replay(program, *make_own_team(2), 2);
  ASSERT_EQ(program.last_plan().sections.size(), 1u);
  EXPECT_EQ(program.last_plan().sections[0].end, 2);
}

TEST(Lanes, WorkersAreDivided) {
  const Section section{0, 9, {0, 2, 5}, {0, 2, 0}};
  auto groups = divide_workers(section, 8);
  EXPECT_EQ(groups[2].size, 2);
  EXPECT_EQ(groups[0].size, 3);
  EXPECT_EQ(groups[5].size, 3);
  std::set<int> workers;
  for (const int lane : section.lanes)
    for (int id = groups[lane].begin; id < groups[lane].begin + groups[lane].size; ++id) workers.insert(id);
  EXPECT_EQ(workers.size(), 8u);
  groups = divide_workers(section, 2);
  for (const int lane : section.lanes) EXPECT_EQ(groups[lane].size, 1);
  EXPECT_EQ(groups[0].begin, groups[5].begin);
  groups = divide_workers({0, 9, {0, 1}, {64, 64}}, 4);
  EXPECT_EQ(groups[0].size + groups[1].size, 4);
  EXPECT_EQ(groups[1].size, 1);
}

TEST(Lanes, ALimitOfCoresHolds) {
  Builder builder(2);
  builder.step(0, 0, 0, 1, 12);
  static std::atomic<int> most{0};
  auto& launch = std::get<Launch>(builder.parts_.steps[0]);
  launch.kernel = [](void* const*, const int64_t*, int64_t, int64_t, GxWorker* worker) {
    for (int seen = most; worker->id > seen && !most.compare_exchange_weak(seen, worker->id);) {
    }
  };
  launch.cores = 2;
  const Program program(std::move(builder.parts_));
  const auto team = make_own_team(4);
  for (int i = 0; i < 50; ++i) replay(program, *team, 4);
  EXPECT_LE(most, 1);
}

}  // namespace
}  // namespace graphex::runtime
