// A team that borrows the threads of the OpenMP library that torch has loaded, so that torch's threads, which spin for
// milliseconds after each eager operator, are the ones that do our work instead of fighting for its cores.
#include "graphex/runtime/cpu/openmp.h"
#include "graphex/runtime/fork.h"
#include "graphex/runtime/team.h"

namespace graphex::runtime {
namespace {

class OpenMpTeam final : public Team {
 public:
  OpenMpTeam(int workers, int spins, OpenMp openmp) : Team(workers, spins), spins_(spins), openmp_(std::move(openmp)) {}

  const char* kind() const override { return substitute_ ? substitute_->kind() : "openmp"; }

 private:
  struct Call {
    OpenMpTeam* team;
    const Job* job;
  };

  void dispatch(int n, const Job& job) noexcept override {
    if (substitute_) {
      substitute_->run(n, job.body, job.status);
      return;
    }
    Call call{this, &job};
    openmp_.parallel(work_in_region, &call, static_cast<unsigned>(n), 0);
  }

  // OpenMP may give fewer threads than asked: in a nested region, with a thread limit, with dynamic adjustment.
  static void work_in_region(void* data) {
    const Call& call = *static_cast<Call*>(data);
    call.team->work(*call.job, call.team->openmp_.thread_num(), call.team->openmp_.num_threads());
  }

  // GNU's library waits for ever in the child for the parent's threads.
  void after_fork() override { substitute_ = make_own_team(size(), spins_); }

  const int spins_;
  const OpenMp openmp_;
  std::unique_ptr<Team> substitute_;  // only in the child of a fork
};

}  // namespace

std::unique_ptr<Team> make_openmp_team(int workers, int spins) {
  if (fork_generation() > 1) return nullptr;
  std::optional<OpenMp> openmp = find_loaded_openmp();
  if (!openmp) return nullptr;
  return std::make_unique<OpenMpTeam>(workers, spins, std::move(*openmp));
}

}  // namespace graphex::runtime
