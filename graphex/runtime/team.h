// A team of workers that run one function together and meet at barriers: what a stream owns on a CPU.
//
// One dispatch per replay, not per operator: the body walks the whole tape on each worker. The calling thread is
// worker 0. The workers take on the caller's floating-point mode. A busy team makes a second caller (another thread,
// or a call from inside a body) run alone as one worker: nothing waits, so nothing can deadlock, and results never
// depend on the number of workers. After fork() a team works in the child. It knows nothing of Python; release the
// GIL before run().
#pragma once

#include <atomic>
#include <memory>

#include "graphex/base/function_ref.h"
#include "graphex/base/kernel_abi.h"
#include "graphex/runtime/barrier.h"
#include "graphex/runtime/cpu/float_mode.h"
#include "graphex/runtime/scratch.h"

namespace graphex::runtime {

// The body must not throw (that ends the process) and must not call code that runs Python or OpenMP.
using TeamBody = FunctionRef<void(GxWorker&)>;

class Team {
 public:
  virtual ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // The most workers that a run can have.
  int size() const { return size_; }
  // "own" or "openmp".
  virtual const char* kind() const = 0;
  // Runs the body on at most n workers (clamped to 1..size) and returns when all are done. The body must read the
  // real number from GxWorker::count. `status` is handed to every worker.
  void run(int n, TeamBody body, GxStatus* status = nullptr);
  // For use inside a body, with that body's worker.
  Barrier& barrier() { return barrier_; }

 protected:
  Team(int workers, int spins);

  // One run's work, shared by its workers.
  struct Job {
    TeamBody body;
    GxStatus* status;
    FloatMode mode;
  };
  // Runs the job on at most n >= 2 workers; called by one thread at a time.
  virtual void dispatch(int n, const Job& job) noexcept = 0;
  // The child of a fork() calls this before its first dispatch: the parent's threads don't exist here.
  virtual void after_fork() = 0;
  // One worker's part.
  void work(const Job& job, int id, int count) const noexcept { call(job, scratch_.of(id), id, count); }

 private:
  bool acquire();
  void release();
  static void call(const Job& job, void* scratch, int id, int count) noexcept;

  const int size_;
  Barrier barrier_;
  Scratch scratch_;
  std::atomic<uint32_t> holder_{0};  // fork generation of the thread inside run(), 0 if none
  uint32_t generation_;              // the one that the workers belong to
};

// A team of threads of our own. `spins`: pauses before a waiting thread sleeps.
std::unique_ptr<Team> make_own_team(int workers, int spins = kSpinPauses);
// A team that borrows the threads of the OpenMP library that is already in the process (torch's); null if there is
// none that we can drive.
std::unique_ptr<Team> make_openmp_team(int workers, int spins = kSpinPauses);
// The OpenMP team if there is one, else our own: docs/design/0001-worker-team.md says why.
std::unique_ptr<Team> make_team(int workers);

}  // namespace graphex::runtime
