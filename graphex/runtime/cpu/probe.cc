#include "graphex/runtime/cpu/probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "graphex/runtime/cpu/probe_loops.h"

namespace graphex::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kGiB = size_t{1} << 30;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The sum of the distinct level-3 caches; 0 where the system doesn't say.
size_t last_level_cache_bytes() {
  size_t total = 0;
  std::set<std::string> seen;
  for (int cpu = 0;; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    if (!std::filesystem::exists(folder)) return total;
    std::string sharers;
    size_t kib = 0;
    std::ifstream(folder + "/cache/index3/shared_cpu_list") >> sharers;
    std::ifstream(folder + "/cache/index3/size") >> kib;  // "32768K"
    if (kib && seen.insert(sharers).second) total += kib << 10;
  }
}

size_t default_buffer_bytes() { return std::max(kGiB, std::min(8 * last_level_cache_bytes(), 4 * kGiB)); }

// Passes over the loops in turn until the time is up, each at least twice; work is what one pass of one loop does.
template <class Loop, class Pass>
Rate best_rate(const std::vector<Loop>& loops, double seconds, const Pass& pass) {
  Rate best;
  const auto start = Clock::now();
  for (int round = 0; round < 2 || seconds_since(start) < seconds; ++round) {
    for (const Loop& loop : loops) {
      const auto pass_start = Clock::now();
      const double work = pass(loop);
      const double rate = work / seconds_since(pass_start);
      if (rate > best.per_second) best = {rate, loop.name};
    }
  }
  return best;
}

// This worker's part of `bytes`, a multiple of the unit that the loops work in.
std::pair<size_t, size_t> share(size_t bytes, const GxWorker& worker) {
  const size_t units = bytes / kProbeUnit, id = worker.id, count = worker.count;
  return {units * id / count * kProbeUnit, units * (id + 1) / count * kProbeUnit};
}

Rate probe_arithmetic(const std::vector<ArithmeticLoop>& loops, Team& team, int workers, double seconds) {
  constexpr int64_t kIterations = 1'000'000;  // 2 ms: long beside a dispatch, short beside a time slice
  if (loops.empty()) return {};
  return best_rate(loops, seconds, [&](const ArithmeticLoop& loop) {
    std::atomic<double> operations{0};
    team.run(workers, [&](GxWorker& worker) {
      loop.run(kIterations);
      if (worker.id == 0) operations = static_cast<double>(loop.operations) * kIterations * worker.count;
    });
    return operations.load();
  });
}

}  // namespace

MemoryProbe::MemoryProbe(Team& team, int workers, size_t bytes)
    : team_(team),
      workers_(workers),
      buffer_(
          MemoryBlock::allocate((bytes ? bytes : default_buffer_bytes()) / (2 * kProbeUnit) * (2 * kProbeUnit), true)) {
  team_.run(workers_, [&](GxWorker& worker) {
    const auto [begin, end] = share(buffer_.bytes(), worker);
    std::memset(static_cast<char*>(buffer_.data()) + begin, 1, end - begin);
  });
}

Rate MemoryProbe::read(double seconds) {
  return best_rate(read_loops(), seconds, [&](const ReadLoop& loop) {
    std::atomic<uint64_t> sink{0};
    team_.run(workers_, [&](GxWorker& worker) {
      const auto [begin, end] = share(buffer_.bytes(), worker);
      sink += loop.run(static_cast<const char*>(buffer_.data()) + begin, end - begin);
    });
    return static_cast<double>(buffer_.bytes());
  });
}

Rate MemoryProbe::copy(double seconds) {
  return best_rate(copy_loops(), seconds, [&](const CopyLoop& loop) {
    const size_t half = buffer_.bytes() / 2;
    team_.run(workers_, [&](GxWorker& worker) {
      const auto [begin, end] = share(half, worker);
      char* data = static_cast<char*>(buffer_.data());
      loop.run(data + half + begin, data + begin, end - begin);
    });
    return static_cast<double>(buffer_.bytes());
  });
}

Rate probe_fp32(Team& team, int workers, double seconds) {
  return probe_arithmetic(fp32_loops(), team, workers, seconds);
}

Rate probe_bf16(Team& team, int workers, double seconds) {
  return probe_arithmetic(bf16_loops(), team, workers, seconds);
}

Rate probe_int8(Team& team, int workers, double seconds) {
  return probe_arithmetic(int8_loops(), team, workers, seconds);
}

Rate probe_int4(Team& team, int workers, double seconds) {
  return probe_arithmetic(int4_loops(), team, workers, seconds);
}

Prober::Prober(int workers) : workers_(workers), team_(make_team(workers)), memory_(*team_, workers) {}

Probe Prober::probe(double seconds) {
  return {workers_,
          memory_.bytes(),
          memory_.read(seconds),
          memory_.copy(seconds),
          probe_fp32(*team_, workers_, seconds),
          probe_bf16(*team_, workers_, seconds),
          probe_int8(*team_, workers_, seconds),
          probe_int4(*team_, workers_, seconds)};
}

}  // namespace graphex::runtime
