#include "graphex/runtime/team.h"

#include <algorithm>

#include "graphex/base/error.h"
#include "graphex/runtime/fork.h"

namespace graphex::runtime {
namespace {

int checked_size(int workers) {
  GX_CHECK(workers >= 1, "a team needs at least 1 worker, not ", workers);
  return workers;
}

}  // namespace

Team::Team(int workers, int spins)
    : size_(checked_size(workers)), barrier_(spins), scratch_(workers), generation_(fork_generation()) {}

Team::~Team() = default;

void Team::run(int n, TeamBody body, GxStatus* status) {
  const Job job{body, status, FloatMode::current()};
  if (std::min(n, size_) > 1 && acquire()) {
    dispatch(std::min(n, size_), job);
    release();
  } else {
    const CallerScratch scratch;
    call(job, scratch.data(), 0, 1);
  }
}

// A holder of an older generation was a thread of the parent process, so the team is free here.
bool Team::acquire() {
  const uint32_t generation = fork_generation();
  uint32_t holder = holder_.load(std::memory_order_relaxed);
  if (holder == generation || !holder_.compare_exchange_strong(holder, generation, std::memory_order_acquire)) {
    return false;
  }
  if (generation_ != generation) {
    generation_ = generation;
    barrier_.reset();
    after_fork();
  }
  return true;
}

void Team::release() { holder_.store(0, std::memory_order_release); }

void Team::call(const Job& job, void* scratch, int id, int count) noexcept {
  const ScopedFloatMode mode(job.mode);
  GxWorker worker{scratch, job.status, id, count, 0};
  job.body(worker);
}

std::unique_ptr<Team> make_team(int workers) {
  std::unique_ptr<Team> team = make_openmp_team(workers);
  return team ? std::move(team) : make_own_team(workers);
}

}  // namespace graphex::runtime
