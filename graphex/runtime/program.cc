#include "graphex/runtime/program.h"

#include <algorithm>
#include <chrono>

#include "graphex/base/error.h"
#include "graphex/runtime/shares.h"

namespace graphex::runtime {
namespace {

// An empty tensor's memory may be null, to which C++ adds nothing.
char* moved(char* base, int64_t bytes) {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(bytes));
}

constexpr int64_t kSharedTiles = 8;  // of fewer tiles there is nothing to give away
constexpr size_t kPlansKept = 32;    // a plan is cheap to make again; frames in use hold theirs

bool fits(const Plan& plan, const ProgramParts& parts, const Frame& frame) {
  for (size_t i = 0; i < parts.buffers.size(); ++i)
    if (parts.buffers[i].kind == BufferKind::kArena &&
        buffer_bytes(parts, static_cast<int>(i), frame.values) > plan.bytes[i])
      return false;
  for (size_t i = 0; i < parts.steps.size(); ++i)
    if (plan.single[i] && frame.tiles[i] > 1) return false;
  return true;
}

void forget_passed(Frame& frame, int workers) {
  if (frame.passed_words < workers) {
    frame.passed = std::make_unique<ParkingWord[]>(static_cast<size_t>(workers));
    frame.passed_words = workers;
  }
  for (int id = 0; id < workers; ++id) frame.passed[id].reset();
}

void wait_until_passed(ParkingWord& word, int step) {
  for (uint32_t now = word.value(); now <= static_cast<uint32_t>(step);) now = word.wait_while(now, kSpinPauses);
}

void raise_fault(const GxStatus& status, const Launch& launch) {
  if (status.fault == GX_LENGTH_OUT_OF_RANGE)
    fail(launch.fault, "length ", status.a, " of sequence ", status.c, ": its block table has room for ", status.b,
         " keys (in ", launch.name, ")");
  if (status.fault == GX_BLOCK_OUT_OF_RANGE)
    fail(launch.fault, "block ", status.a, " of sequence ", status.c, ": there are ", status.b, " blocks (in ",
         launch.name, ")");
  GX_ASSERT(status.fault == GX_INDEX_OUT_OF_RANGE);
  fail(launch.fault, "index ", status.a, " is out of bounds for dimension ", status.c, " with size ", status.b, " (in ",
       launch.name, ")");
}

}  // namespace

Program::Program(ProgramParts parts) : parts_(std::move(parts)) {
  tape_.emplace_back();
  for (const Step& step : parts_.steps) add_to_tape(step);
  allocate_at_.resize(parts_.steps.size());
  release_at_.resize(parts_.steps.size());
  for (size_t i = 0; i < parts_.buffers.size(); ++i) {
    const Buffer& buffer = parts_.buffers[i];
    if (buffer.kind != BufferKind::kHost || buffer.first < 0) continue;
    if (std::holds_alternative<Launch>(parts_.steps[buffer.first]))
      allocate_at_[buffer.first].push_back(static_cast<int>(i));
    if (!buffer.result) release_at_[buffer.last].push_back(static_cast<int>(i));
  }
}

Program::~Program() = default;

void Program::add_to_tape(const Step& step) {
  TapeEntry next{nullptr, tape_.back().first_pointer, tape_.back().first_size};
  if (const Launch* launch = std::get_if<Launch>(&step)) {
    GX_ASSERT(launch->kernel && launch->tiles);
    tape_.back().kernel = launch->kernel;
    tape_.back().cores = launch->cores;
    pointers_.insert(pointers_.end(), launch->pointers.begin(), launch->pointers.end());
    next.first_pointer += static_cast<int>(launch->pointers.size());
    next.first_size += static_cast<int>(launch->sizes.size());
    ++launches_;
  } else {
    ++islands_;
  }
  tape_.push_back(next);
}

std::unique_ptr<Frame> Program::take_frame(std::span<const int64_t> symbols, std::shared_ptr<ArenaPool> pool) const {
  GX_ASSERT(static_cast<int>(symbols.size()) == parts_.symbols);
  std::unique_ptr<Frame> frame;
  {
    const std::lock_guard lock(mutex_);
    if (!free_frames_.empty()) {
      frame = std::move(free_frames_.back());
      free_frames_.pop_back();
    }
  }
  if (!frame) {
    frame = std::make_unique<Frame>(*this);
    frame->bases.assign(parts_.buffers.size(), nullptr);
  }
  if (!frame->plan || !std::equal(symbols.begin(), symbols.end(), frame->symbols.begin())) resize(*frame, symbols);
  place_arena(*frame, std::move(pool));
  return frame;
}

// Computes all that follows from the symbols.
void Program::resize(Frame& frame, std::span<const int64_t> symbols) const {
  frame.symbols.assign(symbols.begin(), symbols.end());
  frame.values.resize(parts_.sizes.size());
  parts_.sizes.eval(symbols, frame.values.data());
  frame.launch_sizes.resize(tape_.back().first_size);
  frame.pointers.resize(pointers_.size());
  frame.tiles.assign(parts_.steps.size(), 0);
  frame.shared.assign(parts_.steps.size(), -1);
  int shared = 0;
  for (size_t i = 0; i < parts_.steps.size(); ++i) {
    const Launch* launch = std::get_if<Launch>(&parts_.steps[i]);
    if (!launch) continue;
    int64_t* sizes = frame.launch_sizes.data() + tape_[i].first_size;
    for (size_t k = 0; k < launch->sizes.size(); ++k) sizes[k] = frame.values[launch->sizes[k]];
    frame.tiles[i] = launch->tiles(sizes);
    if (frame.tiles[i] >= kSharedTiles && launch->divisible && launch->divisible(sizes)) frame.shared[i] = shared++;
  }
  frame.shared_launches = shared;
  frame.plan = plan_for(frame);
  frame.placed_at = nullptr;
}

std::shared_ptr<const Plan> Program::plan_for(const Frame& frame) const {
  std::vector<int64_t> bucket;
  for (const int64_t symbol : frame.symbols) bucket.push_back(bucket_of(symbol));
  const std::lock_guard lock(mutex_);
  for (auto it = plans_.begin(); it != plans_.end(); ++it)
    if (((*it)->symbols == bucket || (*it)->symbols == frame.symbols) && fits(**it, parts_, frame)) {
      plans_.splice(plans_.begin(), plans_, it);
      return plans_.front();
    }
  auto plan = std::make_shared<const Plan>(make_plan(parts_, bucket));
  // Sizes that don't grow with the symbols (differences, remainders) may need more than the bucket's plan gives.
  if (!fits(*plan, parts_, frame)) plan = std::make_shared<const Plan>(make_plan(parts_, frame.symbols));
  ++plans_made_;
  plans_.push_front(plan);
  if (plans_.size() > kPlansKept) plans_.pop_back();
  return plan;
}

void Program::place_arena(Frame& frame, std::shared_ptr<ArenaPool> pool) const {
  const size_t needed = static_cast<size_t>(frame.plan->arena_bytes);
  if (pool) {
    frame.arena = pool->take(needed);
    frame.pool = std::move(pool);
  } else if (!frame.arena || frame.arena.bytes() < needed) {
    frame.arena = {};  // before the new one: the old values are of no use
    frame.arena = MemoryBlock::allocate(needed);
  }
  if (frame.placed_at == frame.arena.data()) return;
  for (size_t i = 0; i < parts_.buffers.size(); ++i)
    if (parts_.buffers[i].kind == BufferKind::kArena)
      frame.bases[i] = static_cast<char*>(frame.arena.data()) + std::max<int64_t>(frame.plan->offsets[i], 0);
  frame.placed_at = frame.arena.data();
}

void Program::give_back(std::unique_ptr<Frame> frame) const {
  if (frame->pool) {
    frame->pool->give_back(std::move(frame->arena));
    frame->pool.reset();
  }
  const std::lock_guard lock(mutex_);
  if (frame->profile) {
    profile_.resize(frame->times.size());
    for (size_t i = 0; i < frame->times.size(); ++i) {
      profile_[i].nanoseconds += frame->times[i].nanoseconds;
      profile_[i].bytes += frame->times[i].bytes;
    }
    std::fill(frame->times.begin(), frame->times.end(), LaunchTime{});
  }
  free_frames_.push_back(std::move(frame));
}

Plan Program::last_plan() const {
  const std::lock_guard lock(mutex_);
  return plans_.empty() ? Plan{} : *plans_.front();
}

std::vector<LaunchTime> Program::profile() const {
  const std::lock_guard lock(mutex_);
  return profile_;
}

void Program::run(Frame& frame, Team& team, int workers, Host& host) const {
  const int count = static_cast<int>(parts_.steps.size());
  frame.status = {};
  frame.first_fault = -1;
  if (frame.profile) frame.times.resize(count);
  frame.workers = workers;
  frame.taken.assign(static_cast<size_t>(frame.shared_launches) * workers, 0);
  if (!frame.plan->sections.empty()) forget_passed(frame, std::max(workers, 1));
  if (frame.traced) frame.trace.resize(static_cast<size_t>(std::max(workers, 1)));
  const ScopedSpan span(frame.trace_of(0), SpanKind::kReplay, 0);
  run_steps(frame, team, workers, host);
}

void Program::run_steps(Frame& frame, Team& team, int workers, Host& host) const {
  const int count = static_cast<int>(parts_.steps.size());
  for (int begin = 0; begin < count;) {
    if (const Island* island = std::get_if<Island>(&parts_.steps[begin])) {
      {
        const ScopedSpan span(frame.trace_of(0), SpanKind::kIsland, begin);
        host.call(*island, frame);
      }
      release_after(host, begin, begin + 1);
      ++begin;
      continue;
    }
    int end = begin;
    while (end < count && std::holds_alternative<Launch>(parts_.steps[end])) ++end;
    allocate_for(frame, host, begin, end);
    set_pointers(frame, begin, end);
    host.enter_tape();
    run_tape(frame, team, workers, begin, end);
    host.leave_tape();
    if (frame.status.fault) raise_fault(frame.status, std::get<Launch>(parts_.steps[frame.first_fault]));
    release_after(host, begin, end);
    begin = end;
  }
}

void Program::allocate_for(Frame& frame, Host& host, int begin, int end) const {
  for (int step = begin; step < end; ++step)
    for (const int buffer : allocate_at_[step]) frame.bases[buffer] = static_cast<char*>(host.allocate(buffer, frame));
}

void Program::release_after(Host& host, int begin, int end) const {
  for (int step = begin; step < end; ++step)
    for (const int buffer : release_at_[step]) host.release(buffer);
}

void Program::set_pointers(Frame& frame, int begin, int end) const {
  const int last = tape_[end].first_pointer;
  for (int i = tape_[begin].first_pointer; i < last; ++i)
    frame.pointers[i] = moved(frame.bases[pointers_[i].buffer], frame.values[pointers_[i].byte_offset]);
}

void Program::run_tape(Frame& frame, Team& team, int workers, int begin, int end) const {
  if (frame.profile && !frame.traced) return run_profiled(frame, team, workers, begin, end);
  const Plan& plan = *frame.plan;
  const bool alone = plan.sections.empty() && std::all_of(frame.tiles.begin() + begin, frame.tiles.begin() + end,
                                                          [](int64_t n) { return n <= 1; });
  auto body = [&](GxWorker& worker) {
    for (int i = begin; i < end; ++i) {
      if (!plan.section_at.empty() && plan.section_at[i] >= 0) {
        const Section& section = plan.sections[plan.section_at[i]];
        run_section(frame, section, team, worker);
        i = section.end - 1;
        continue;
      }
      fetch(frame, i);
      if (plan.barrier[i]) {
        const ScopedSpan span(frame.trace_of(worker.id), SpanKind::kBarrier, i);
        team.barrier().wait(worker);
      }
      run_traced(frame, i, worker, frame.trace_of(worker.id));
    }
  };
  team.run(alone ? 1 : workers, body, &frame.status);
}

// The workers meet before and after. In between each walks the launches of its lane, or lanes, in order.
void Program::run_section(Frame& frame, const Section& section, Team& team, GxWorker& worker) const noexcept {
  WorkerTrace* const trace = frame.trace_of(worker.id);
  {
    const ScopedSpan span(trace, SpanKind::kBarrier, section.begin);
    team.barrier().wait(worker);
  }
  const auto groups = divide_workers(section, worker.count);
  ParkingWord* const passed = frame.passed.get();
  for (int i = section.begin; i < section.end; ++i) {
    const SectionStep& at = frame.plan->section_steps[i];
    const Group group = groups[at.lane];
    if (!group.has(worker.id)) continue;
    fetch(frame, i);
    if (at.waits) {
      const ScopedSpan span(trace, SpanKind::kLaneWait, i);
      for (const LaneWait& wait : frame.plan->waits[i])
        for (int id = groups[wait.lane].begin; id < groups[wait.lane].begin + groups[wait.lane].size; ++id)
          wait_until_passed(passed[id], wait.step);
    }
    GxWorker part{worker.scratch, worker.status, worker.id - group.begin, group.size, 0};
    run_traced(frame, i, part, trace);
    if (at.awaited) passed[worker.id].publish(static_cast<uint32_t>(i) + 1);
  }
  const ScopedSpan span(trace, SpanKind::kBarrier, section.end - 1);
  team.barrier().wait(worker);
}

void Program::run_traced(Frame& frame, int step, GxWorker& worker, WorkerTrace* trace) const noexcept {
  ScopedSpan span(trace, SpanKind::kKernel, step);
  run_launch(frame, step, worker);
  if (worker.piece == 0) span.drop();
}

// Asks for what a launch reads of tape and frame: its predecessor has driven them from the caches.
void Program::fetch(const Frame& frame, int step) const {
  const TapeEntry& entry = tape_[step];
  __builtin_prefetch(&tape_[step + 1]);
  __builtin_prefetch(frame.pointers.data() + entry.first_pointer);
  __builtin_prefetch(frame.launch_sizes.data() + entry.first_size);
  __builtin_prefetch(reinterpret_cast<const void*>(entry.kernel));
}

void Program::run_profiled(Frame& frame, Team& team, int workers, int begin, int end) const {
  for (int i = begin; i < end; ++i) {
    const auto start = std::chrono::steady_clock::now();
    auto body = [&](GxWorker& worker) { run_launch(frame, i, worker); };
    team.run(frame.tiles[i] <= 1 ? 1 : workers, body, &frame.status);
    const auto spent = std::chrono::steady_clock::now() - start;
    frame.times[i].nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count();
    for (const Pointer& pointer : std::get<Launch>(parts_.steps[i]).pointers)
      frame.times[i].bytes += frame.values[pointer.bytes];
  }
}

void Program::run_launch(Frame& frame, int step, GxWorker& worker) const noexcept {
  const TapeEntry& entry = tape_[step];
  const auto run = [&](TileRange range) {
    entry.kernel(frame.pointers.data() + entry.first_pointer, frame.launch_sizes.data() + entry.first_size, range.begin,
                 range.end, &worker);
    ++worker.piece;
  };
  worker.piece = 0;
  const int count = entry.cores > 0 ? std::min(entry.cores, worker.count) : worker.count;
  if (worker.id >= count) return;
  if (frame.shared[step] >= 0 && count > 1) {
    Shares shares(frame.tiles[step], count, frame.taken.data() + frame.shared[step] * frame.workers);
    for (TileRange range = shares.take(worker.id); !range.empty(); range = shares.take(worker.id)) run(range);
  } else if (const TileRange range = share_of(frame.tiles[step], worker.id, count); !range.empty()) {
    run(range);
  }
  if (__atomic_load_n(&frame.status.fault, __ATOMIC_RELAXED) != GX_OK) {
    int32_t none = -1;
    __atomic_compare_exchange_n(&frame.first_fault, &none, step, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
}

}  // namespace graphex::runtime
