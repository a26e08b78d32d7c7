// What the workers of one replay did when: kept in its frame, by each worker for itself, if the frame is traced.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace graphex::runtime {

enum class SpanKind : uint8_t { kKernel, kBarrier, kLaneWait, kIsland, kReplay };

struct TraceSpan {
  SpanKind kind;
  int step;            // that it runs or waits for
  int64_t begin, end;  // nanoseconds of the steady clock
};

struct WorkerTrace {
  int64_t thread = 0;  // of the system
  std::vector<TraceSpan> spans;
};

inline int64_t trace_clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// The calling thread's number.
int64_t trace_thread();

// Notes the span from its making to its end with a worker's trace; does nothing for a null one.
class ScopedSpan {
 public:
  ScopedSpan(WorkerTrace* trace, SpanKind kind, int step) : trace_(trace), kind_(kind), step_(step) {
    if (trace_) begin_ = trace_clock();
  }
  ~ScopedSpan() {
    if (!trace_) return;
    if (trace_->thread == 0) trace_->thread = trace_thread();
    trace_->spans.push_back({kind_, step_, begin_, trace_clock()});
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;
  // Nothing was done after all.
  void drop() { trace_ = nullptr; }

 private:
  WorkerTrace* trace_;
  const SpanKind kind_;
  const int step_;
  int64_t begin_ = 0;
};

}  // namespace graphex::runtime
