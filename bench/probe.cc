// What this machine can do at most: the floors that other benches are stated against.
#include "graphex/runtime/cpu/probe.h"

#include <benchmark/benchmark.h>

#include "graphex/runtime/cpu/usable_cpus.h"

namespace {

using graphex::runtime::Rate;

void report(benchmark::State& state, const Rate& rate) {
  state.SetLabel(rate.loop);
  state.counters["G/s"] = rate.per_second * 1e-9;
}

template <class Measure>
void run(benchmark::State& state, const Measure& measure) {
  const int workers = static_cast<int>(state.range(0));
  const auto team = graphex::runtime::make_own_team(workers);
  for (auto _ : state) report(state, measure(*team, workers));
}

void BM_Read(benchmark::State& state) {
  run(state, [](auto& team, int workers) { return graphex::runtime::MemoryProbe(team, workers).read(); });
}
void BM_Copy(benchmark::State& state) {
  run(state, [](auto& team, int workers) { return graphex::runtime::MemoryProbe(team, workers).copy(); });
}
void BM_Fp32(benchmark::State& state) {
  run(state, [](auto& team, int workers) { return graphex::runtime::probe_fp32(team, workers); });
}
void BM_Bf16(benchmark::State& state) {
  run(state, [](auto& team, int workers) { return graphex::runtime::probe_bf16(team, workers); });
}
void BM_Int8(benchmark::State& state) {
  run(state, [](auto& team, int workers) { return graphex::runtime::probe_int8(team, workers); });
}
void BM_Int4(benchmark::State& state) {
  run(state, [](auto& team, int workers) { return graphex::runtime::probe_int4(team, workers); });
}

const int64_t kAll = graphex::runtime::usable_cpus();
BENCHMARK(BM_Read)->ArgName("workers")->Arg(1)->Arg(kAll)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Copy)->ArgName("workers")->Arg(1)->Arg(kAll)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Fp32)->ArgName("workers")->Arg(1)->Arg(kAll)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Bf16)->ArgName("workers")->Arg(1)->Arg(kAll)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Int8)->ArgName("workers")->Arg(1)->Arg(kAll)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Int4)->ArgName("workers")->Arg(1)->Arg(kAll)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
