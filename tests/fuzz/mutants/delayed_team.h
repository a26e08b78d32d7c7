// A team whose workers start far apart in time, so that what a missing barrier lets happen does happen.
#pragma once

#include <chrono>
#include <thread>
#include <vector>

#include "graphex/runtime/team.h"

namespace graphex::test {

class DelayedTeam : public runtime::Team {
 public:
  explicit DelayedTeam(int workers) : Team(workers, runtime::kSpinPauses) {}
  const char* kind() const override { return "delayed"; }

 protected:
  // Each run lets another worker go first.
  void dispatch(int n, const Job& job) noexcept override {
    const int first = runs_++ % n;
    const auto part = [&](int id) {
      if (id != first) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      work(job, id, n);
    };
    std::vector<std::thread> threads;
    for (int id = 1; id < n; ++id) threads.emplace_back(part, id);
    part(0);
    for (std::thread& thread : threads) thread.join();
  }
  void after_fork() override {}

 private:
  int runs_ = 0;
};

}  // namespace graphex::test
