// Moments in the work of streams, and events: what other streams and the host wait for.
//
// Recording an event puts a new moment at the end of a stream's queue; a wait is for the moment that the event stands
// for when the wait is asked for, as on accelerators. Every moment depends only on work that was queued before it, so
// waits can't form a circle.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

namespace graphex::runtime {

class Stream;

// Why work on a stream went wrong. It spreads to streams that wait for that work, until somebody was told.
struct Failure {
  explicit Failure(std::exception_ptr error) : error(std::move(error)) {}
  const std::exception_ptr error;
  std::atomic<bool> told{false};
};

class Moment {
 public:
  using Clock = std::chrono::steady_clock;

  bool reached() const { return reached_.load(std::memory_order_acquire); }
  // Waits at most that long; returns whether it is reached.
  bool wait_for(std::chrono::milliseconds most) const;
  void wait() const;
  // Called once, by what runs the stream.
  void reach(std::shared_ptr<Failure> failure);
  // Of a moment that is reached.
  Clock::time_point when() const { return when_; }
  const std::shared_ptr<Failure>& failure() const { return failure_; }
  // Throws the failure of the work before it, if any; it is told then.
  void raise_failure() const;

 private:
  void spin() const;

  std::atomic<bool> reached_{false};
  Clock::time_point when_;
  std::shared_ptr<Failure> failure_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
};

class Event {
 public:
  // Without a stream: the calling thread's work, which is done.
  void record(Stream* stream);
  // The moment it stands for; null if it was never recorded.
  std::shared_ptr<const Moment> moment() const;
  // Whether all work before it is done; also true of an event that was never recorded.
  bool query() const;
  // Milliseconds between two events; Error(kRuntime) unless both were recorded and are reached.
  static double milliseconds(const Event& from, const Event& to);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Moment> moment_;
};

}  // namespace graphex::runtime
