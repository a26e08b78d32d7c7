// Programs built by hand, of kernels that are late at random: what one launch writes, the next one reads.
#include "graphex/runtime/program.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

namespace graphex::runtime {
namespace {

constexpr int64_t kTiles = 64;
std::atomic<uint32_t> delays{0};  // 0: none

// Now and then a worker loses its core for up to 100 us, as on a machine that is shared.
void be_late() {
  uint32_t state = delays.load(std::memory_order_relaxed);
  if (state == 0) return;
  state = state * 1664525 + 1013904223;
  delays.store(state | 1, std::memory_order_relaxed);
  if ((state >> 24) % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(state >> 16 & 127));
}

// to[i] = from[tiles - 1 - i] + 1: each tile reads what another worker wrote.
void mirror(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker*) {
  const auto* from = static_cast<const int64_t*>(pointers[0]);
  auto* to = static_cast<int64_t*>(pointers[1]);
  be_late();
  for (int64_t i = begin; i < end; ++i) to[i] = from[sizes[0] - 1 - i] + 1;
}
int64_t tiles_of(const int64_t* sizes) { return sizes[0]; }
int64_t yes(const int64_t*) { return 1; }

// Bits of a sum depend on its order: one tile adds all.
void sum(void* const* pointers, const int64_t* sizes, int64_t, int64_t, GxWorker*) {
  be_late();
  const auto* from = static_cast<const int64_t*>(pointers[0]);
  *static_cast<int64_t*>(pointers[1]) = std::accumulate(from, from + sizes[0], int64_t{0});
}
int64_t one_tile(const int64_t*) { return 1; }

struct NoHost final : Host {
  void* allocate(int, const Frame&) override { return nullptr; }
  void call(const Island&, Frame&) override {}
  void release(int) override {}
};

// Input 0 goes through `length` mirrors, by way of the arena, into input 1, and its sum into input 2.
ProgramParts chain(int length, bool divisible) {
  ProgramParts parts;
  parts.inputs = 3;
  const SizeId tiles = parts.sizes.symbol(0), zero = parts.sizes.constant(0);
  const SizeId bytes = parts.sizes.apply(SizeProgram::Op::kMul, tiles, parts.sizes.constant(8));
  parts.symbols = 1;
  for (int i = 0; i < 3; ++i) parts.buffers.push_back({.kind = BufferKind::kInput, .input = i});
  int from = 0;
  for (int step = 0; step < length; ++step) {
    int to = 1;
    if (step + 1 < length) {
      to = static_cast<int>(parts.buffers.size());
      parts.buffers.push_back({.kind = BufferKind::kArena, .bytes = bytes, .first = step, .last = step + 1});
    }
    parts.steps.push_back(Launch{.kernel = mirror,
                                 .tiles = tiles_of,
                                 .workspace = nullptr,
                                 .divisible = divisible ? yes : nullptr,
                                 .name = "mirror",
                                 .pointers = {{from, zero, bytes}, {to, zero, bytes, true}},
                                 .sizes = {tiles}});
    from = to;
  }
  parts.steps.push_back(Launch{.kernel = sum,
                               .tiles = one_tile,
                               .workspace = nullptr,
                               .divisible = nullptr,
                               .name = "sum",
                               .pointers = {{1, zero, bytes}, {2, zero, parts.sizes.constant(8), true}},
                               .sizes = {tiles}});
  return parts;
}

class Chain : public testing::TestWithParam<bool> {
 protected:
  void TearDown() override { delays = 0; }
};

constexpr int kLength = 20;

void check_replay(const Program& program, Team& team, int workers, int64_t tiles) {
  std::vector<int64_t> in(tiles), out(tiles, -1);
  std::iota(in.begin(), in.end(), 5);
  int64_t total = -1;
  NoHost host;
  auto frame = program.take_frame(std::array{tiles});
  frame->bases[0] = reinterpret_cast<char*>(in.data());
  frame->bases[1] = reinterpret_cast<char*>(out.data());
  frame->bases[2] = reinterpret_cast<char*>(&total);
  program.run(*frame, team, workers, host);
  program.give_back(std::move(frame));
  for (int64_t i = 0; i < tiles; ++i) ASSERT_EQ(out[i], in[i] + kLength) << i;
  ASSERT_EQ(total, std::accumulate(out.begin(), out.end(), int64_t{0}));
}

TEST_P(Chain, HoldsUnderRandomDelays) {
  const Program program(chain(kLength, GetParam()));
  const auto team = make_own_team(4);
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    delays = seed * 2654435761u | 1;
    check_replay(program, *team, 1 + seed % 4, kTiles + seed % 3);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Chain, IsReplayedByManyThreadsAtOnce) {
  const Program program(chain(kLength, GetParam()));
  const auto team = make_own_team(2);
  std::vector<std::jthread> threads;
  for (int64_t id = 0; id < 4; ++id)
    threads.emplace_back([&, id] {
      for (int round = 0; round < 50; ++round) check_replay(program, *team, 2, kTiles * (id + 1));
    });
}

INSTANTIATE_TEST_SUITE_P(, Chain, testing::Values(false, true),
                         [](const auto& info) { return std::string(info.param ? "helping" : "fixed"); });

TEST(Program, PlansOncePerBucket) {
  const Program program(chain(3, true));
  for (int64_t tiles : {20, 19, 17, 20}) program.give_back(program.take_frame(std::array{tiles}));
  EXPECT_EQ(program.plans_made(), 1);
  program.give_back(program.take_frame(std::array{int64_t{21}}));
  EXPECT_EQ(program.plans_made(), 2);
}

}  // namespace
}  // namespace graphex::runtime
