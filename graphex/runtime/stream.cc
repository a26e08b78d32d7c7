#include "graphex/runtime/stream.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "graphex/base/error.h"
#include "graphex/runtime/cpu/usable_cpus.h"
#include "graphex/runtime/fork.h"
#include "graphex/runtime/parking.h"
#include "graphex/runtime/signal_block.h"

namespace graphex::runtime {
namespace {

StreamSettings checked(StreamSettings settings) {
  GX_CHECK(settings.cores >= 0, "a stream has 1 core or more (0: as many as there are), not ", settings.cores);
  if (settings.cpus.empty()) return settings;
  cpu_set_t usable;
  sched_getaffinity(0, sizeof usable, &usable);
  for (const int cpu : settings.cpus)
    GX_CHECK(cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &usable), "a stream can't have CPU ", cpu,
             ": this process may not run there");
  settings.cores = static_cast<int>(settings.cpus.size());
  return settings;
}

// Of the calling thread; threads that it starts inherit both.
void settle_in(const StreamSettings& settings) {
  if (!settings.cpus.empty()) {
    cpu_set_t own;
    CPU_ZERO(&own);
    for (const int cpu : settings.cpus) CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
  }
  const auto self = static_cast<id_t>(gettid());
  if (settings.nice != 0) setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + settings.nice);
}

}  // namespace

// The queue and the thread. In the child of a fork it is left behind as it is.
class Stream::Line {
 public:
  explicit Line(const StreamSettings& settings) : settings_(settings) {}
  ~Line();

  void push(Work work, std::shared_ptr<Moment> moment = nullptr, bool always = false);
  bool idle() const { return done_.load(std::memory_order_acquire) == queued_.load(std::memory_order_relaxed); }
  std::shared_ptr<Failure> failure();
  void fail_with(std::shared_ptr<Failure> failure);

  const uint32_t generation = fork_generation();

 private:
  struct Item {
    Work work;
    std::shared_ptr<Moment> moment;  // what it reaches, instead of work
    bool always;                     // also behind a failure
    FloatMode mode;
  };

  void serve();
  bool next(Item& item);
  void run(Item& item);

  const StreamSettings& settings_;
  std::unique_ptr<Team> team_;  // the thread's
  std::mutex mutex_;            // queue, failure, thread, leaving
  std::condition_variable more_;
  std::deque<Item> queue_;
  std::shared_ptr<Failure> failure_;
  std::thread thread_;
  bool leaving_ = false;
  std::atomic<uint64_t> queued_{0}, done_{0};
};

Stream::Line::~Line() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    more_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Stream::Line::push(Work work, std::shared_ptr<Moment> moment, bool always) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    const ScopedSignalBlock block;
    thread_ = std::thread([this] { serve(); });
    pthread_setname_np(thread_.native_handle(), "graphex-stream");
  }
  queue_.push_back({std::move(work), std::move(moment), always, FloatMode::current()});
  queued_.fetch_add(1, std::memory_order_relaxed);
  more_.notify_one();
}

std::shared_ptr<Failure> Stream::Line::failure() {
  const std::lock_guard lock(mutex_);
  if (failure_ && failure_->told) failure_.reset();
  return failure_;
}

void Stream::Line::fail_with(std::shared_ptr<Failure> failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_ || failure_->told) failure_ = std::move(failure);
}

void Stream::Line::serve() {
  settle_in(settings_);
  team_ = make_own_team(settings_.cores > 0 ? settings_.cores : usable_cpus());
  for (Item item{{}, {}, false, FloatMode::current()}; next(item);) {
    if (!item.moment) run(item);
    item.work = {};  // what it holds is let go of before anybody learns that it is done
    done_.fetch_add(1, std::memory_order_release);
    if (item.moment) std::exchange(item.moment, nullptr)->reach(failure());
  }
}

// Spins a while for the next item before it sleeps: replays come one after the other.
bool Stream::Line::next(Item& item) {
  for (int i = 0; i < kSpinPauses && idle(); ++i) cpu_pause();
  std::unique_lock lock(mutex_);
  more_.wait(lock, [&] { return leaving_ || !queue_.empty(); });
  if (queue_.empty()) return false;
  item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void Stream::Line::run(Item& item) {
  if (!item.always && failure()) return;
  const ScopedFloatMode mode(item.mode);
  try {
    item.work(*team_);
  } catch (...) {
    fail_with(std::make_shared<Failure>(std::current_exception()));
  }
}

Stream::Stream(StreamSettings settings) : settings_(checked(std::move(settings))), line_(new Line(settings_)) {}

Stream::~Stream() {
  if (line_.load()->generation == fork_generation()) delete line_.load();
}

Stream::Line& Stream::line() const {
  Line* now = line_.load(std::memory_order_acquire);
  if (now->generation == fork_generation()) return *now;
  auto fresh = std::make_unique<Line>(settings_);
  return line_.compare_exchange_strong(now, fresh.get(), std::memory_order_acq_rel) ? *fresh.release() : *now;
}

void Stream::enqueue(Work work) { line().push(std::move(work)); }

void Stream::mark(std::shared_ptr<Moment> moment) { line().push({}, std::move(moment)); }

void Stream::wait(std::shared_ptr<const Moment> moment) {
  Line& own = line();
  own.push(
      [&own, moment = std::move(moment)](Team&) {
        moment->wait();
        if (moment->failure() && !moment->failure()->told) own.fail_with(moment->failure());
      },
      nullptr, true);
}

bool Stream::idle() const { return line().idle(); }

void Stream::raise_failure() {
  const std::shared_ptr<Failure> failure = line().failure();
  if (!failure) return;
  failure->told = true;
  std::rethrow_exception(failure->error);
}

}  // namespace graphex::runtime
