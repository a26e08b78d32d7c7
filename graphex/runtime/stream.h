// A stream on a CPU: a queue of work, a thread that does it in order, and a team of workers that is the stream's own.
//
// Work of one stream runs one after the other; streams run at the same time unless events order them. Thread and team
// exist from the first work on. Knows nothing of Python; don't wait with the GIL held. In the child of a fork() a
// stream is empty and starts anew.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "graphex/runtime/event.h"
#include "graphex/runtime/team.h"

namespace graphex::runtime {

struct StreamSettings {
  int cores = 0;          // workers of its team; 0: as many as the process may use
  std::vector<int> cpus;  // which CPUs they run on; none: any
  int nice = 0;           // added to the niceness of its threads; the system may refuse what is below 0
};

class Stream {
 public:
  using Work = std::function<void(Team&)>;

  // Error(kInvalidArgument) for cores below 0 and CPUs that this process may not use.
  explicit Stream(StreamSettings settings);
  // Waits for the queued work.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Queues work, which runs in the floating-point mode of now. If it throws, what is queued behind it is dropped until
  // the failure is told: thrown by raise_failure, here, of a moment behind it or of a stream that waited for one.
  void enqueue(Work work);
  // Queues the reaching of a moment.
  void mark(std::shared_ptr<Moment> moment);
  // What is queued from now on starts after that moment.
  void wait(std::shared_ptr<const Moment> moment);
  // Whether all that was queued is done.
  bool idle() const;
  // Throws the failure that nobody was told of yet, of work that is done.
  void raise_failure();

  const StreamSettings& settings() const { return settings_; }

 private:
  class Line;
  Line& line() const;

  const StreamSettings settings_;
  mutable std::atomic<Line*> line_;
};

}  // namespace graphex::runtime
