#include "graphex/runtime/event.h"

#include "graphex/base/error.h"
#include "graphex/runtime/parking.h"
#include "graphex/runtime/stream.h"

namespace graphex::runtime {

void Moment::spin() const {
  for (int i = 0; i < kSpinPauses && !reached(); ++i) cpu_pause();
}

bool Moment::wait_for(std::chrono::milliseconds most) const {
  spin();
  if (reached()) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return reached(); });
}

void Moment::wait() const {
  spin();
  if (reached()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached(); });
}

void Moment::reach(std::shared_ptr<Failure> failure) {
  const std::lock_guard lock(mutex_);
  when_ = Clock::now();
  failure_ = std::move(failure);
  reached_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Moment::raise_failure() const {
  if (!failure_) return;
  failure_->told = true;
  std::rethrow_exception(failure_->error);
}

void Event::record(Stream* stream) {
  auto moment = std::make_shared<Moment>();
  if (stream)
    stream->mark(moment);
  else
    moment->reach(nullptr);
  const std::lock_guard lock(mutex_);
  moment_ = std::move(moment);
}

std::shared_ptr<const Moment> Event::moment() const {
  const std::lock_guard lock(mutex_);
  return moment_;
}

bool Event::query() const {
  const auto now = moment();
  return !now || now->reached();
}

double Event::milliseconds(const Event& from, const Event& to) {
  const auto start = from.moment(), end = to.moment();
  if (!start || !end) fail(ErrorKind::kRuntime, "elapsed_time needs two recorded events; call record() on both first");
  if (!start->reached() || !end->reached())
    fail(ErrorKind::kRuntime, "elapsed_time needs two events that are reached; call synchronize() on both first");
  return std::chrono::duration<double, std::milli>(end->when() - start->when()).count();
}

}  // namespace graphex::runtime
