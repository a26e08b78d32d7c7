// Launches of several streams in one program: which may run side by side, on which workers, and what waits for what.
//
// Every worker walks the tape in order. Where launches of a side lane begin and until they are joined (a section), the
// workers are divided among the lanes; a launch runs on its lane's workers and waits, before it starts, until the
// workers of another lane have passed the step that it depends on. Waits are for earlier steps only, so they can't form
// a circle. Outside of sections all workers share each launch.
//
// Order is kept by vector clocks: per lane, the last step of each lane that is known to be done. A wait is left out
// where the clock says so already.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace graphex::runtime {

struct ProgramParts;
struct Plan;

inline constexpr int kMaxLanes = 32;  // of a program; 0 is the main one

struct Section {
  int begin, end;          // steps
  std::vector<int> lanes;  // that occur in it, ascending
  std::vector<int> cores;  // per one of `lanes`: how many it asks for; 0: a share of what is left
};

// Workers of a lane.
struct Group {
  int begin = 0, size = 1;
  bool has(int worker) const { return worker >= begin && worker < begin + size; }
};

// What a step waits for: that the workers of a lane have passed a step.
struct LaneWait {
  int lane, step;
};

// What a worker asks of each step in passing.
struct SectionStep {
  int16_t lane = 0;
  bool waits = false;    // it has waits
  bool awaited = false;  // some other step waits for it
};

// Per lane of a program (unused lanes: the whole team). Lanes beyond the number of workers share one.
std::array<Group, kMaxLanes> divide_workers(const Section& section, int workers);

// The sections of a program, by the buffers that its steps touch; empty if it has only the main lane.
std::vector<Section> find_sections(const ProgramParts& parts);
// Fills in the waits of all sections' steps; the plan has its offsets.
void place_waits(const ProgramParts& parts, Plan& plan);

}  // namespace graphex::runtime
