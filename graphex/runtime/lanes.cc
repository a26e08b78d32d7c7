#include "graphex/runtime/lanes.h"

#include <algorithm>

#include "graphex/runtime/accesses.h"
#include "graphex/runtime/program.h"

namespace graphex::runtime {
namespace {

// Per lane: its last step that is done; -1: none of the section's.
using Clock = std::array<int, kMaxLanes>;

Clock zero() {
  Clock clock;
  clock.fill(-1);
  return clock;
}

void merge(Clock& into, const Clock& from) {
  for (int lane = 0; lane < kMaxLanes; ++lane) into[lane] = std::max(into[lane], from[lane]);
}

int lane_of(const Step& step) {
  const Launch* launch = std::get_if<Launch>(&step);
  return launch ? launch->lane : 0;
}

// The earlier steps that each step depends on, by whole buffers.
class Dependences {
 public:
  explicit Dependences(const ProgramParts& parts)
      : last_write_(parts.buffers.size(), -1), reads_(parts.buffers.size()) {}

  std::vector<int> of(const Launch& launch, int step) {
    std::vector<int> found;
    for (const Pointer& pointer : launch.pointers) {
      if (last_write_[pointer.buffer] >= 0) found.push_back(last_write_[pointer.buffer]);
      if (pointer.written) found.insert(found.end(), reads_[pointer.buffer].begin(), reads_[pointer.buffer].end());
    }
    for (const Pointer& pointer : launch.pointers) {
      if (pointer.written) {
        last_write_[pointer.buffer] = step;
        reads_[pointer.buffer].clear();
      } else {
        reads_[pointer.buffer].push_back(step);
      }
    }
    std::erase(found, step);
    return found;
  }

 private:
  std::vector<int> last_write_;
  std::vector<std::vector<int>> reads_;
};

// Walks the steps; a section is open from what the first launch of a side lane depends on until the main lane knows of
// all that the side lanes did.
class SectionFinder {
 public:
  explicit SectionFinder(const ProgramParts& parts) : parts_(parts) {
    Dependences dependences(parts);
    for (int step = 0; step < count(); ++step) {
      const Launch* launch = std::get_if<Launch>(&parts.steps[step]);
      depends_.push_back(launch ? dependences.of(*launch, step) : std::vector<int>());
    }
    clocks_.assign(parts.steps.size(), zero());
  }

  std::vector<Section> run() {
    for (int step = 0; step < count(); ++step) {
      if (std::holds_alternative<Island>(parts_.steps[step])) {
        close(step);
        floor_ = step + 1;
      } else if (open_ || lane_of(parts_.steps[step]) != 0) {
        if (!open_) open(step);
        if (!joins(step)) add(step);
      }
    }
    close(count());
    return std::move(sections_);
  }

 private:
  int count() const { return static_cast<int>(parts_.steps.size()); }

  void open(int step) {
    begin_ = floor_;
    for (const int earlier : depends_[step]) begin_ = std::max(begin_, earlier + 1);
    open_ = true;
    known_.fill(zero());
    last_ = zero();
    for (int earlier = begin_; earlier < step; ++earlier) add(earlier);
    round_ = std::get<Launch>(parts_.steps[step]).round;
  }

  void close(int end) {
    if (!open_) return;
    Section section{begin_, end, {}, {}};
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      if (last_[lane] < 0) continue;
      section.lanes.push_back(lane);
      int cores = 0;
      for (int step = begin_; step < end; ++step) {
        const auto& launch = std::get<Launch>(parts_.steps[step]);
        if (launch.lane == lane) cores = std::max(cores, launch.lane_cores);
      }
      section.cores.push_back(cores);
    }
    sections_.push_back(std::move(section));
    open_ = false;
    floor_ = end;
  }

  Clock before(int step) const {
    Clock clock = known_[lane_of(parts_.steps[step])];
    for (const int earlier : depends_[step])
      if (earlier >= begin_) merge(clock, clocks_[earlier]);
    return clock;
  }

  void add(int step) {
    const int lane = lane_of(parts_.steps[step]);
    clocks_[step] = before(step);
    clocks_[step][lane] = last_[lane] = step;
    known_[lane] = clocks_[step];
  }

  // Whether the step is the main lane's and comes after all that the side lanes did, by what it reads or because the
  // user ordered it so; the section ends before it then.
  bool joins(int step) {
    const auto& launch = std::get<Launch>(parts_.steps[step]);
    if (launch.lane != 0) return false;
    const Clock clock = before(step);
    for (int lane = 1; lane < kMaxLanes && launch.round <= round_; ++lane)
      if (clock[lane] < last_[lane]) return false;
    close(step);
    return true;
  }

  const ProgramParts& parts_;
  std::vector<std::vector<int>> depends_;
  std::vector<Clock> clocks_;  // per step: what is done once it is done
  std::array<Clock, kMaxLanes> known_;
  Clock last_;
  std::vector<Section> sections_;
  bool open_ = false;
  int begin_ = 0, floor_ = 0, round_ = 0;
};

// Places the waits of one section.
class WaitPlacer {
 public:
  WaitPlacer(const ProgramParts& parts, Plan& plan, const Section& section) : parts_(parts), plan_(plan) {
    known_.fill(zero());
    for (int step = section.begin; step < section.end; ++step) place(step, section.begin);
  }

 private:
  struct Touch {
    Access access;
    int step, lane;
  };

  void place(int step, int begin) {
    const auto& launch = std::get<Launch>(parts_.steps[step]);
    plan_.section_steps[step].lane = static_cast<int16_t>(launch.lane);
    const size_t first_own = touched_.size();
    for (const Pointer& pointer : launch.pointers)
      touched_.push_back({access_of(parts_, plan_, pointer, plan_.single[step]), step, launch.lane});
    Clock needed = zero();
    for (size_t i = 0; i < first_own; ++i)
      for (size_t own = first_own; own < touched_.size(); ++own)
        if (must_wait(touched_[i], touched_[own]))
          needed[touched_[i].lane] = std::max(needed[touched_[i].lane], touched_[i].step);
    for (int lane = 0; lane < kMaxLanes; ++lane) wait(step, launch.lane, lane, needed[lane], begin);
    clocks_.push_back(known_[launch.lane]);
  }

  // Launches of one tile all run on their lane's first worker, in order.
  static bool must_wait(const Touch& earlier, const Touch& own) {
    Access access = own.access;
    access.single = access.single && earlier.lane == own.lane;
    return conflict(earlier.access, access);
  }

  void wait(int step, int lane, int other, int until, int begin) {
    if (until < 0 || known_[lane][other] >= until) return;
    plan_.waits[step].push_back({other, until});
    plan_.section_steps[step].waits = plan_.section_steps[until].awaited = true;
    merge(known_[lane], clocks_[until - begin]);
    known_[lane][other] = std::max(known_[lane][other], until);
  }

  const ProgramParts& parts_;
  Plan& plan_;
  std::array<Clock, kMaxLanes> known_;  // per lane: what all its workers know
  std::vector<Clock> clocks_;           // per step of the section: what its lane knew
  std::vector<Touch> touched_;
};

}  // namespace

std::array<Group, kMaxLanes> divide_workers(const Section& section, int workers) {
  std::array<Group, kMaxLanes> groups;
  groups.fill({0, workers});
  const int count = static_cast<int>(section.lanes.size());
  if (count > workers) {
    for (int i = 0; i < count; ++i) groups[section.lanes[i]] = {i % workers, 1};
    return groups;
  }
  std::array<int, kMaxLanes> sizes;
  sizes.fill(1);
  int left = workers - count, without = 0;
  for (int i = 0; i < count; ++i) {
    const int more = std::clamp(section.cores[i] - 1, 0, left);
    sizes[i] += more;
    left -= more;
    without += section.cores[i] == 0;
  }
  for (int i = 0; i < count && without > 0; ++i) {
    if (section.cores[i] != 0) continue;
    const int more = (left + without - 1) / without;
    --without;
    sizes[i] += more;
    left -= more;
  }
  for (int i = 0, begin = 0; i < count; begin += sizes[i++]) groups[section.lanes[i]] = {begin, sizes[i]};
  return groups;
}

std::vector<Section> find_sections(const ProgramParts& parts) {
  const bool side = std::any_of(parts.steps.begin(), parts.steps.end(), [](const Step& s) { return lane_of(s) != 0; });
  return side ? SectionFinder(parts).run() : std::vector<Section>();
}

void place_waits(const ProgramParts& parts, Plan& plan) {
  if (plan.sections.empty()) return;
  plan.waits.resize(parts.steps.size());
  plan.section_steps.resize(parts.steps.size());
  for (const Section& section : plan.sections) WaitPlacer(parts, plan, section);
}

}  // namespace graphex::runtime
