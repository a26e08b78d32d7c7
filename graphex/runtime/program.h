// A Program is an immutable tape of launches and islands; a Frame holds one execution of it.
//
// Everything that varies from replay to replay is a slot of the Frame: pointers of inputs and results, symbols and what
// follows from them. A replay patches slots and runs the tape: it copies no input and makes no plan for sizes whose
// bucket it has seen. Several threads may replay one Program, a Frame each.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graphex/base/dtype.h"
#include "graphex/base/error.h"
#include "graphex/base/kernel_abi.h"
#include "graphex/runtime/arena_pool.h"
#include "graphex/runtime/lanes.h"
#include "graphex/runtime/memory.h"
#include "graphex/runtime/parking.h"
#include "graphex/runtime/size_program.h"
#include "graphex/runtime/team.h"
#include "graphex/runtime/trace.h"

namespace graphex::runtime {

// Where a block of memory comes from: the caller's tensors, tensors that the host makes for this replay (results of the
// program; operands and results of islands), or the planned arena of the frame.
enum class BufferKind : uint8_t { kInput, kHost, kArena };

struct Buffer {
  BufferKind kind;
  int input = -1;         // kInput: which one
  SizeId bytes = 0;       // kHost and kArena; a workspace's size is asked of its launch's `workspace` instead
  int workspace_of = -1;  // kArena: the step whose workspace this is
  int first = -1;         // first and last step that touches it; host buffers that are results live on
  int last = -1;
  bool result = false;  // kHost: an output of the program
};

struct Pointer {
  int buffer;
  SizeId byte_offset;
  SizeId bytes;  // extent that the launch may touch from there
  bool written = false;
};

struct Launch {
  GxKernel kernel = nullptr;
  GxTiles tiles = nullptr;
  GxWorkspace workspace = nullptr;  // may be null
  GxDivisible divisible = nullptr;  // may be null
  std::string name;
  std::vector<Pointer> pointers;
  std::vector<SizeId> sizes;
  ErrorKind fault = ErrorKind::kIndex;  // what an index out of range is reported as
  int lane = 0;                         // the stream it was captured on; 0 is the main one
  int lane_cores = 0;                   // how many workers that stream asks for; 0: a share
  int round = 0;                        // how often the main stream had waited for all others by then
  int cores = 0;                        // the most workers that may share it; 0: all
  std::string range = {}, source = {};  // of the user: the range it is in, the line it comes from
};

// A tensor as the host sees it: a layout over a buffer.
struct TensorView {
  int buffer;
  SizeId byte_offset;
  DType dtype;
  std::vector<SizeId> shape, strides;
};

// A call back into the host in mid-replay.
struct Island {
  int call;
  std::string name;
  std::vector<TensorView> operands;
  std::vector<SizeId> ints;
  std::vector<TensorView> results;  // each a whole kHost buffer
};

using Step = std::variant<Launch, Island>;

struct Plan;
class Frame;

struct LaunchTime {
  int64_t nanoseconds = 0;
  int64_t bytes = 0;
};

// What a replay asks of its caller. Calls come on the thread that called run.
class Host {
 public:
  virtual ~Host() = default;
  // Memory for a kHost buffer that a launch will write (never for island results).
  virtual void* allocate(int buffer, const Frame& frame) = 0;
  // Runs an island; sets the bases of its result buffers in the frame.
  virtual void call(const Island& island, Frame& frame) = 0;
  // A kHost buffer that isn't a result is needed no more.
  virtual void release(int buffer) = 0;
  // Around each stretch of launches (Python releases the GIL here).
  virtual void enter_tape() {}
  virtual void leave_tape() {}
};

struct ProgramParts {
  SizeProgram sizes;
  int symbols = 0;
  int inputs = 0;
  std::vector<Buffer> buffers;
  std::vector<TensorView> buffer_types;  // per buffer; of kHost ones: the tensor that the host makes
  std::vector<Step> steps;
  std::vector<TensorView> outputs;
  std::vector<TensorView> input_types;  // what each input must be (checked by the host at bind)
  std::vector<std::string> symbol_names;
  std::vector<bool> input_written;
  std::shared_ptr<const void> code;  // keeps the kernels alive
};

class Program {
 public:
  explicit Program(ProgramParts parts);
  ~Program();

  const ProgramParts& parts() const { return parts_; }
  // A frame nobody else uses, ready for these symbols, with the pool's memory if there is one. Give it back when done.
  std::unique_ptr<Frame> take_frame(std::span<const int64_t> symbols, std::shared_ptr<ArenaPool> pool = {}) const;
  void give_back(std::unique_ptr<Frame> frame) const;
  // Runs all steps; input bases are set in the frame before. Throws Error(kIndex) if a kernel found an index out of
  // range.
  void run(Frame& frame, Team& team, int workers, Host& host) const;

  int launches() const { return launches_; }
  int islands() const { return islands_; }
  // Storage plans made so far; a size inside a known bucket makes none.
  int plans_made() const { return plans_made_; }
  // The plan used last; empty before the first replay.
  Plan last_plan() const;
  // Time and bytes per step, summed over all replays of frames with `profile` on.
  std::vector<LaunchTime> profile() const;

 private:
  // What a worker needs of a launch, in the order in which it needs it: other kernels' data has driven it from the
  // caches, so it lies together.
  struct TapeEntry {
    GxKernel kernel = nullptr;  // null: an island
    int first_pointer = 0, first_size = 0;
    int cores = 0;
  };

  void add_to_tape(const Step& step);
  void resize(Frame& frame, std::span<const int64_t> symbols) const;
  std::shared_ptr<const Plan> plan_for(const Frame& frame) const;
  void place_arena(Frame& frame, std::shared_ptr<ArenaPool> pool) const;
  void allocate_for(Frame& frame, Host& host, int begin, int end) const;
  void release_after(Host& host, int begin, int end) const;
  void set_pointers(Frame& frame, int begin, int end) const;
  void fetch(const Frame& frame, int step) const;
  void run_tape(Frame& frame, Team& team, int workers, int begin, int end) const;
  void run_profiled(Frame& frame, Team& team, int workers, int begin, int end) const;
  void run_steps(Frame& frame, Team& team, int workers, Host& host) const;
  void run_launch(Frame& frame, int step, GxWorker& worker) const noexcept;
  void run_traced(Frame& frame, int step, GxWorker& worker, WorkerTrace* trace) const noexcept;
  void run_section(Frame& frame, const Section& section, Team& team, GxWorker& worker) const noexcept;

  ProgramParts parts_;
  int launches_ = 0, islands_ = 0;
  std::vector<TapeEntry> tape_;                // per step, and one for the end
  std::vector<Pointer> pointers_;              // all launches', one after the other
  std::vector<std::vector<int>> allocate_at_;  // per step: host buffers that a launch writes first there
  std::vector<std::vector<int>> release_at_;   // per step: host buffers that nothing needs after it
  mutable std::mutex mutex_;
  mutable int plans_made_ = 0;
  mutable std::list<std::shared_ptr<const Plan>> plans_;  // most recent first
  mutable std::vector<std::unique_ptr<Frame>> free_frames_;
  mutable std::vector<LaunchTime> profile_;
};

class Frame {
 public:
  Frame(const Program& program) : program(program) {}
  int64_t value(SizeId id) const { return values[id]; }
  char* base(int buffer) const { return bases[buffer]; }

  const Program& program;
  std::vector<int64_t> symbols, values;
  std::vector<char*> bases;              // per buffer
  std::vector<int64_t> tiles;            // per step
  std::vector<int> shared;               // per step: its place among the launches whose workers help each other, or -1
  int shared_launches = 0, workers = 0;  // workers: the most that this replay may have
  std::vector<uint64_t> taken;           // of those launches, a word per worker (Shares)
  std::vector<int64_t> launch_sizes;     // all launches' size arguments, one after the other
  std::vector<void*> pointers;           // all launches' pointer arguments
  std::shared_ptr<const Plan> plan;
  MemoryBlock arena;
  void* placed_at = nullptr;        // the arena that `bases` point into
  std::shared_ptr<ArenaPool> pool;  // takes the arena back after the replay
  GxStatus status{};
  int32_t first_fault = -1;  // step
  bool profile = false;
  bool traced = false;             // what the workers do is noted in `trace`
  std::vector<WorkerTrace> trace;  // per worker
  WorkerTrace* trace_of(int worker) { return traced ? &trace[static_cast<size_t>(worker)] : nullptr; }
  std::vector<LaunchTime> times;          // per step, when profile is on (by worker 0, barriers after each launch)
  std::unique_ptr<ParkingWord[]> passed;  // per worker: one more than the last awaited step that it has passed
  int passed_words = 0;
};

// A storage plan: offsets of arena buffers for sizes up to the bucket's, and where the workers must meet.
struct Plan {
  std::vector<int64_t> symbols;              // the bucket it was made for
  std::vector<int64_t> bytes;                // per buffer, rounded up
  std::vector<int64_t> offsets;              // per buffer, -1 unless kArena
  std::vector<bool> single;                  // per step: planned as at most one tile
  std::vector<bool> barrier;                 // per step: meet before it
  std::vector<Section> sections;             // where lanes run side by side
  std::vector<int> section_at;               // per step: the section that begins there, or -1; empty if there is none
  std::vector<std::vector<LaneWait>> waits;  // per step; empty if there is no section
  std::vector<SectionStep> section_steps;    // per step; empty if there is no section
  int64_t arena_bytes = 0;
  int barriers = 0;
};

// Rounds a size up to its bucket: powers of two and the three steps between.
int64_t bucket_of(int64_t size);
// Bytes of buffer i for these values, whose symbols gave these size arguments for its launch.
int64_t buffer_bytes(const ProgramParts& parts, int buffer, std::span<const int64_t> values);
Plan make_plan(const ProgramParts& parts, std::span<const int64_t> symbols);

}  // namespace graphex::runtime
