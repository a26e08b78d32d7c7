// A C face on Team for bench/team_with_torch.py, which needs it in the process where torch's OpenMP threads live.
#include <chrono>
#include <cstdint>
#include <cstring>

#include "graphex/runtime/team.h"

using graphex::runtime::Team;

namespace {

double read_share(const float* data, int64_t floats, const GxWorker& worker) {
  const int64_t begin = floats * worker.id / worker.count, end = floats * (worker.id + 1) / worker.count;
  float sums[32] = {};
  for (int64_t i = begin; i + 32 <= end; i += 32) {
    for (int lane = 0; lane < 32; ++lane) sums[lane] += data[i + lane];
  }
  double sum = 0;
  for (float lane : sums) sum += lane;
  return sum;
}

}  // namespace

extern "C" {

#define GX_BENCH_API __attribute__((visibility("default")))

GX_BENCH_API void* gx_bench_team(const char* kind, int workers, int spins) {
  auto team = std::strcmp(kind, "own") == 0 ? graphex::runtime::make_own_team(workers, spins)
                                            : graphex::runtime::make_openmp_team(workers, spins);
  return team.release();
}

GX_BENCH_API void gx_bench_team_free(void* team) { delete static_cast<Team*>(team); }

// What a decode step does to the machine: `launches` reads of `floats` each, `stride` floats apart, with a barrier
// after each. Returns microseconds from entry to return.
GX_BENCH_API double gx_bench_replay(void* handle, int workers, const float* data, int64_t floats, int64_t stride,
                                    int launches, double* sink) {
  Team& team = *static_cast<Team*>(handle);
  const auto start = std::chrono::steady_clock::now();
  team.run(workers, [&](GxWorker& worker) {
    double sum = 0;
    for (int launch = 0; launch < launches; ++launch) {
      sum += read_share(data + launch * stride, floats, worker);
      team.barrier().wait(worker);
    }
    if (worker.id == 0) *sink = sum;
  });
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}
}
