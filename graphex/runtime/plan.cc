// The storage plan: which arena bytes a buffer has and where workers meet. Made once per size bucket.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "graphex/runtime/accesses.h"
#include "graphex/runtime/program.h"

namespace graphex::runtime {
namespace {

constexpr int64_t kAlignment = 128;  // two cache lines: what prefetchers pull in pairs

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Free ranges of an arena that grows at its end; best fit, neighbours joined.
class FreeRanges {
 public:
  int64_t take(int64_t bytes) {
    const int64_t found = take_free(bytes);
    return found >= 0 ? found : grow(bytes);
  }

  // -1 if no free range is that large.
  int64_t take_free(int64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
    if (best == free_.end()) return -1;
    const auto [offset, size] = *best;
    free_.erase(best);
    if (size > bytes) free_[offset + bytes] = size - bytes;
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    if (bytes == 0) return;
    auto it = free_.emplace(offset, bytes).first;
    if (const auto next = std::next(it); next != free_.end() && offset + bytes == next->first) {
      it->second += next->second;
      free_.erase(next);
    }
    if (it != free_.begin())
      if (const auto before = std::prev(it); before->first + before->second == it->first) {
        before->second += it->second;
        free_.erase(it);
      }
  }

  // Gives all free ranges to another.
  void empty_into(FreeRanges& other) {
    for (const auto& [offset, bytes] : free_) other.give(offset, bytes);
    free_.clear();
  }

  int64_t end() const { return end_; }

 private:
  int64_t grow(int64_t bytes) {
    int64_t offset = end_;
    if (!free_.empty())
      if (const auto tail = std::prev(free_.end()); tail->first + tail->second == end_) {
        offset = tail->first;
        free_.erase(tail);
      }
    end_ = offset + bytes;
    return offset;
  }

  std::map<int64_t, int64_t> free_;
  int64_t end_ = 0;
};

// The arena's free ranges, step by step. In a section, what a lane gives back is for that lane alone until the section
// ends: another lane that took it would have to wait.
class LaneRanges {
 public:
  LaneRanges(const ProgramParts& parts, const Plan& plan) : parts_(parts), plan_(plan) {
    if (!plan.sections.empty()) find_users();
  }

  void enter(int step) {
    if (section_ >= 0 && plan_.sections[section_].end <= step) leave();
    if (!plan_.section_at.empty() && plan_.section_at[step] >= 0) section_ = plan_.section_at[step];
    const Launch* launch = std::get_if<Launch>(&parts_.steps[step]);
    lane_ = launch ? launch->lane : 0;
  }

  int64_t take(int64_t bytes) {
    const int64_t own = section_ >= 0 ? of_lane_[lane_].take_free(bytes) : -1;
    return own >= 0 ? own : common_.take(bytes);
  }

  void give(int buffer, int64_t offset, int64_t bytes) {
    if (section_ < 0) return common_.give(offset, bytes);
    const auto& lanes = lanes_in_[static_cast<size_t>(buffer)];
    const bool own = std::all_of(lanes.begin(), lanes.end(),
                                 [&](const auto& use) { return use.first != section_ || use.second == lane_; });
    (own ? of_lane_[lane_] : later_).give(offset, bytes);
  }

  int64_t end() const { return common_.end(); }

 private:
  void find_users() {
    lanes_in_.resize(parts_.buffers.size());
    for (size_t s = 0; s < plan_.sections.size(); ++s)
      for (int step = plan_.sections[s].begin; step < plan_.sections[s].end; ++step) {
        const auto& launch = std::get<Launch>(parts_.steps[step]);
        for (const Pointer& pointer : launch.pointers) lanes_in_[pointer.buffer].emplace(s, launch.lane);
      }
  }

  void leave() {
    for (FreeRanges& ranges : of_lane_) ranges.empty_into(common_);
    later_.empty_into(common_);
    section_ = -1;
  }

  const ProgramParts& parts_;
  const Plan& plan_;
  FreeRanges common_, later_;
  std::array<FreeRanges, kMaxLanes> of_lane_;
  std::vector<std::set<std::pair<int, int>>> lanes_in_;  // per buffer: sections and lanes that touch it
  int section_ = -1, lane_ = 0;
};

void place_buffers(const ProgramParts& parts, Plan& plan) {
  std::vector<std::vector<int>> begins(parts.steps.size()), ends(parts.steps.size());
  plan.offsets.assign(parts.buffers.size(), -1);
  for (size_t i = 0; i < parts.buffers.size(); ++i) {
    const Buffer& buffer = parts.buffers[i];
    if (buffer.kind != BufferKind::kArena || buffer.first < 0) continue;
    begins[buffer.first].push_back(static_cast<int>(i));
    ends[buffer.last].push_back(static_cast<int>(i));
  }
  LaneRanges ranges(parts, plan);
  for (size_t step = 0; step < parts.steps.size(); ++step) {
    ranges.enter(static_cast<int>(step));
    for (const int i : begins[step]) plan.offsets[i] = ranges.take(aligned(plan.bytes[i]));
    for (const int i : ends[step]) ranges.give(i, plan.offsets[i], aligned(plan.bytes[i]));
  }
  plan.arena_bytes = ranges.end();
}

// A launch must wait if it touches what another worker may have written, or writes what another may be reading, since
// the last meeting. Launches of one tile all run on worker 0, in order, and never wait for each other.
void place_barriers(const ProgramParts& parts, Plan& plan) {
  std::vector<Access> open;
  plan.barrier.assign(parts.steps.size(), false);
  for (size_t step = 0; step < parts.steps.size(); ++step) {
    const Launch* launch = std::get_if<Launch>(&parts.steps[step]);
    if (!plan.section_at.empty() && plan.section_at[step] >= 0) {  // the workers meet before and after it
      plan.barriers += 2;
      open.clear();
      step = static_cast<size_t>(plan.sections[plan.section_at[step]].end) - 1;
      continue;
    }
    if (!launch) {
      open.clear();
      continue;
    }
    std::vector<Access> own;
    for (const Pointer& pointer : launch->pointers) own.push_back(access_of(parts, plan, pointer, plan.single[step]));
    const bool must_wait = std::any_of(own.begin(), own.end(), [&](const Access& a) {
      return std::any_of(open.begin(), open.end(), [&](const Access& b) { return conflict(a, b); });
    });
    if (must_wait) {
      plan.barrier[step] = true;
      ++plan.barriers;
      open.clear();
    }
    open.insert(open.end(), own.begin(), own.end());
  }
}

}  // namespace

bool conflict(const Access& a, const Access& b) {
  return a.space == b.space && (a.written || b.written) && !(a.single && b.single) && a.begin < b.end &&
         b.begin < a.end;
}

Access access_of(const ProgramParts& parts, const Plan& plan, const Pointer& pointer, bool single) {
  if (parts.buffers[pointer.buffer].kind != BufferKind::kArena) return {pointer.buffer, 0, 1, pointer.written, single};
  const int64_t begin = plan.offsets[pointer.buffer];
  return {-1, begin, begin + std::max<int64_t>(plan.bytes[pointer.buffer], 1), pointer.written, single};
}

int64_t bucket_of(int64_t size) {
  constexpr int64_t kLargest = int64_t{1} << 48;  // beyond any memory: a number that isn't a size
  if (size >= kLargest) return size;
  if (size <= 16) return size <= 2 ? size : (size <= 4 ? 4 : (size <= 8 ? 8 : 16));
  int64_t power = 16;
  while (power * 2 <= size) power *= 2;
  const int64_t step = power / 4;
  return (size + step - 1) / step * step;
}

int64_t buffer_bytes(const ProgramParts& parts, int index, std::span<const int64_t> values) {
  const Buffer& buffer = parts.buffers[index];
  if (buffer.kind == BufferKind::kInput) return 0;
  if (buffer.workspace_of < 0) return std::max<int64_t>(values[buffer.bytes], 0);
  const Launch& launch = std::get<Launch>(parts.steps[buffer.workspace_of]);
  std::vector<int64_t> sizes;
  for (const SizeId id : launch.sizes) sizes.push_back(values[id]);
  return launch.workspace(sizes.data());
}

Plan make_plan(const ProgramParts& parts, std::span<const int64_t> symbols) {
  Plan plan;
  plan.symbols.assign(symbols.begin(), symbols.end());
  std::vector<int64_t> values(parts.sizes.size());
  parts.sizes.eval(symbols, values.data());
  for (size_t i = 0; i < parts.buffers.size(); ++i)
    plan.bytes.push_back(buffer_bytes(parts, static_cast<int>(i), values));
  std::vector<int64_t> arguments;
  for (const Step& step : parts.steps) {
    const Launch* launch = std::get_if<Launch>(&step);
    arguments.clear();
    if (launch)
      for (const SizeId id : launch->sizes) arguments.push_back(values[id]);
    plan.single.push_back(launch && launch->tiles(arguments.data()) <= 1);
  }
  plan.sections = find_sections(parts);
  if (!plan.sections.empty()) plan.section_at.assign(parts.steps.size(), -1);
  for (size_t i = 0; i < plan.sections.size(); ++i) plan.section_at[plan.sections[i].begin] = static_cast<int>(i);
  place_buffers(parts, plan);
  place_barriers(parts, plan);
  place_waits(parts, plan);
  return plan;
}

}  // namespace graphex::runtime
