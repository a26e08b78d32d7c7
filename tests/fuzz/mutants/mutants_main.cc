// gx_mutants CACHE [NAME]: runs CI's random graphs with a mutant of plant.py on, in a child, for it may crash.
// Returns 0 if a seed found it. Without a name no mutant is on, and 0 says that nothing was found.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "tests/fuzz/mutants/delayed_team.h"
#include "tests/fuzz/random_graph_run.h"

std::string_view gx_mutant;

namespace {

constexpr int kFound = 7;

int run_seeds(const char* cache) {
  using namespace graphex;
  const compile::Context context = {
      std::make_shared<codegen::KernelCompiler>(codegen::CompilerOptions{.cache_dir = cache}),
      std::make_shared<test::DelayedTeam>(3), 0};
  for (unsigned seed = 0; seed < test::kRandomGraphSeeds; ++seed) {
    const std::string fault = test::fault_of_seed(seed, context);
    if (fault.empty()) continue;
    std::printf("found: %s\n", fault.c_str());
    std::fflush(stdout);
    return kFound;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (argc > 2) gx_mutant = argv[2];
  const pid_t child = fork();
  if (child == 0) _exit(run_seeds(argv[1]));
  int status = 0;
  waitpid(child, &status, 0);
  const bool crashed = WIFSIGNALED(status);
  const bool found = crashed || (WIFEXITED(status) && WEXITSTATUS(status) == kFound);
  if (crashed) std::printf("found: the run ended by signal %d\n", WTERMSIG(status));
  if (!found) std::printf("no seed found %s\n", argc > 2 ? argv[2] : "anything");
  return found == (argc > 2) ? 0 : 1;
}
