// What one dispatch of a team and one barrier cost, spread included: p50 and p99 in nanoseconds over single samples.
#include "graphex/runtime/team.h"

#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using graphex::runtime::Team;
using Clock = std::chrono::steady_clock;

constexpr int kBarriers = 100;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::unique_ptr<Team> make(bool openmp, int workers) {
  if (!openmp) return graphex::runtime::make_own_team(workers);
  dlopen("libgomp.so.1", RTLD_NOW);
  return graphex::runtime::make_openmp_team(workers);
}

void report(benchmark::State& state, std::vector<double>& seconds, int per_sample) {
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) { return seconds[static_cast<size_t>(share * (seconds.size() - 1))]; };
  state.counters["p50_ns"] = at(0.5) * 1e9 / per_sample;
  state.counters["p99_ns"] = at(0.99) * 1e9 / per_sample;
}

// range(0): 0 own, 1 OpenMP; range(1): workers; range(2): idle microseconds before each run.
void BM_EmptyDispatch(benchmark::State& state) {
  const auto team = make(state.range(0), state.range(1));
  if (!team) return state.SkipWithError("libgomp.so.1 isn't installed");
  std::vector<double> seconds;
  for (auto _ : state) {
    if (state.range(2)) std::this_thread::sleep_for(std::chrono::microseconds(state.range(2)));
    const auto start = Clock::now();
    team->run(state.range(1), [](GxWorker&) {});
    seconds.push_back(seconds_since(start));
    state.SetIterationTime(seconds.back());
  }
  report(state, seconds, 1);
}

void BM_Barrier(benchmark::State& state) {
  const auto team = make(state.range(0), state.range(1));
  if (!team) return state.SkipWithError("libgomp.so.1 isn't installed");
  std::vector<double> seconds;
  for (auto _ : state) {
    team->run(state.range(1), [&](GxWorker& worker) {
      team->barrier().wait(worker);
      const auto start = Clock::now();
      for (int i = 0; i < kBarriers; ++i) team->barrier().wait(worker);
      if (worker.id == 0) seconds.push_back(seconds_since(start));
    });
    state.SetIterationTime(seconds.back());
  }
  report(state, seconds, kBarriers);
}

const int64_t kAll = std::max(2u, std::thread::hardware_concurrency());
BENCHMARK(BM_EmptyDispatch)
    ->ArgNames({"openmp", "workers", "idle_us"})
    ->ArgsProduct({{0, 1}, {kAll}, {0, 2000, 20000}})
    ->UseManualTime()
    ->Iterations(500);
BENCHMARK(BM_Barrier)
    ->ArgNames({"openmp", "workers"})
    ->ArgsProduct({{0, 1}, {kAll}})
    ->UseManualTime()
    ->Iterations(1000);

}  // namespace
