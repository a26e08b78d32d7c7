// Blocks, for the threads that are started in its scope, the signals that aren't about the thread's own instructions: a
// handler of the program's must never run on a worker.
#pragma once

#include <signal.h>

namespace graphex::runtime {

class ScopedSignalBlock {
 public:
  ScopedSignalBlock() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&blocked, own);
    pthread_sigmask(SIG_SETMASK, &blocked, &saved_);
  }
  ~ScopedSignalBlock() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  ScopedSignalBlock(const ScopedSignalBlock&) = delete;
  ScopedSignalBlock& operator=(const ScopedSignalBlock&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace graphex::runtime
