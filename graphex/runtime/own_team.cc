// A team of threads of our own: they spin a bounded time after a run, then sleep until the next.
#include <pthread.h>

#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "graphex/runtime/fork.h"
#include "graphex/runtime/signal_block.h"
#include "graphex/runtime/team.h"

namespace graphex::runtime {
namespace {

class OwnTeam final : public Team {
 public:
  OwnTeam(int workers, int spins) : Team(workers, spins), spins_(spins), crew_(std::make_unique<Crew>(workers)) {}
  ~OwnTeam() override;

  const char* kind() const override { return "own"; }

 private:
  struct Seat {
    ParkingWord go;  // moves when the worker has something to do
    uint32_t runs = 0;
  };
  // What the threads see. In the child of a fork it is left behind as it is, since its threads can't be joined there.
  struct Crew {
    explicit Crew(int workers) : seats(workers) { threads.reserve(workers); }

    std::vector<Seat> seats;           // seat 0, the caller's, is unused
    std::vector<std::thread> threads;  // of workers 1, 2, ...; started when first needed
    const Job* job = nullptr;          // null: leave
    int count = 0;
    alignas(128) std::atomic<int> working{0};
    ParkingWord finished;  // moves when the last worker is done
  };

  void dispatch(int n, const Job& job) noexcept override;
  void after_fork() override;
  int hire(int workers);
  void serve(Crew& crew, int id);
  static void start(Seat& seat) { seat.go.publish(++seat.runs); }

  const int spins_;
  std::unique_ptr<Crew> crew_;
  uint32_t generation_ = fork_generation();
};

OwnTeam::~OwnTeam() {
  if (generation_ != fork_generation()) {
    crew_.release();
    return;
  }
  crew_->job = nullptr;
  for (size_t id = 1; id <= crew_->threads.size(); ++id) start(crew_->seats[id]);
  for (std::thread& thread : crew_->threads) thread.join();
}

void OwnTeam::after_fork() {
  crew_.release();
  crew_ = std::make_unique<Crew>(size());
  generation_ = fork_generation();
}

void OwnTeam::dispatch(int n, const Job& job) noexcept {
  Crew& crew = *crew_;
  n = hire(n);
  const uint32_t finished = crew.finished.value();
  crew.job = &job;
  crew.count = n;
  crew.working.store(n - 1, std::memory_order_relaxed);
  for (int id = 1; id < n; ++id) start(crew.seats[id]);
  work(job, 0, n);
  if (n > 1) crew.finished.wait_while(finished, spins_);
}

// Starts the threads that are missing; returns how many workers there are, which is fewer than asked if the system
// refuses a thread.
int OwnTeam::hire(int workers) {
  Crew& crew = *crew_;
  while (static_cast<int>(crew.threads.size()) + 1 < workers) {
    const ScopedSignalBlock block;
    const int id = static_cast<int>(crew.threads.size()) + 1;
    try {
      crew.threads.emplace_back([this, &crew, id] { serve(crew, id); });
    } catch (const std::system_error&) {
      return id;
    }
    pthread_setname_np(crew.threads.back().native_handle(), ("graphex-" + std::to_string(id)).c_str());
  }
  return workers;
}

void OwnTeam::serve(Crew& crew, int id) {
  for (uint32_t runs = 0;;) {
    runs = crew.seats[id].go.wait_while(runs, spins_);
    if (!crew.job) return;
    work(*crew.job, id, crew.count);
    if (crew.working.fetch_sub(1, std::memory_order_acq_rel) == 1) crew.finished.publish(crew.finished.value() + 1);
  }
}

}  // namespace

std::unique_ptr<Team> make_own_team(int workers, int spins) { return std::make_unique<OwnTeam>(workers, spins); }

}  // namespace graphex::runtime
