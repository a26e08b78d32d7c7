#include "trace.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <mutex>

#include "graphex/base/error.h"
#include "graphex/runtime/trace.h"

namespace nb = nanobind;

namespace graphex::python {
namespace {

using runtime::Island;
using runtime::Launch;
using runtime::SpanKind;

constexpr size_t kMostRows = 4'000'000;  // some 400 MB; what comes later is counted

struct Row {
  SpanKind kind;
  int64_t replay, thread, begin, end, bytes;
  int step, lane;
  std::string name, range, source;
};

struct Sink {
  std::mutex mutex;
  std::atomic<bool> on{false};
  std::vector<Row> rows;
  int64_t replays = 0, lost = 0;
};

Sink& sink() {
  static auto* of_process = new Sink();
  return *of_process;
}

Row row_of(const runtime::Program& program, const runtime::Frame& frame, const runtime::TraceSpan& span) {
  Row row{span.kind, 0, 0, span.begin, span.end, 0, span.step, 0, {}, {}, {}};
  if (span.kind == SpanKind::kReplay) return row;
  const runtime::Step& step = program.parts().steps[span.step];
  if (const auto* island = std::get_if<Island>(&step)) {
    row.name = island->name;
    return row;
  }
  const auto& launch = std::get<Launch>(step);
  row.name = launch.name, row.range = launch.range, row.source = launch.source, row.lane = launch.lane;
  if (span.kind == SpanKind::kKernel)
    for (const runtime::Pointer& pointer : launch.pointers) row.bytes += frame.value(pointer.bytes);
  return row;
}

nb::list stop_trace() {
  std::vector<Row> rows;
  {
    const std::lock_guard lock(sink().mutex);
    sink().on = false;
    rows.swap(sink().rows);
  }
  constexpr const char* kKinds[] = {"kernel", "barrier", "stream wait", "island", "replay"};
  nb::list out;
  for (const Row& row : rows)
    out.append(nb::make_tuple(kKinds[static_cast<int>(row.kind)], row.replay, row.thread, row.begin, row.end, row.bytes,
                              row.step, row.lane, row.name, row.range, row.source));
  return out;
}

const char* name_of_kind(runtime::BufferKind kind) {
  return kind == runtime::BufferKind::kInput ? "input" : kind == runtime::BufferKind::kHost ? "tensor" : "arena";
}

}  // namespace

bool tracing() { return sink().on.load(std::memory_order_relaxed); }

void keep_trace(const runtime::Program& program, runtime::Frame& frame) {
  const std::lock_guard lock(sink().mutex);
  const int64_t replay = sink().replays++;
  for (runtime::WorkerTrace& worker : frame.trace) {
    for (const runtime::TraceSpan& span : worker.spans) {
      if (sink().rows.size() >= kMostRows) {
        ++sink().lost;
        continue;
      }
      Row row = row_of(program, frame, span);
      row.replay = replay;
      row.thread = worker.thread;
      sink().rows.push_back(std::move(row));
    }
    worker = {};
  }
}

void define_trace(nb::module_& m) {
  m.def("start_trace", [] {
    const std::lock_guard lock(sink().mutex);
    if (sink().on) fail(ErrorKind::kRuntime, "a trace is being taken already; end that graphex.trace first");
    sink().rows.clear();
    sink().replays = sink().lost = 0;
    sink().on = true;
  });
  m.def("stop_trace", &stop_trace);
  m.def("trace_lost", [] { return sink().lost; });
}

nb::dict describe(const runtime::Program& program) {
  const runtime::ProgramParts& parts = program.parts();
  const runtime::Plan plan = program.last_plan();
  std::vector<int64_t> values(parts.sizes.size());
  const bool planned = static_cast<int>(plan.symbols.size()) == parts.symbols && !plan.bytes.empty();
  if (planned) parts.sizes.eval(plan.symbols, values.data());
  nb::list steps, buffers, sections;
  for (size_t i = 0; i < parts.steps.size(); ++i) {
    nb::dict step;
    nb::list reads, writes;
    if (const auto* launch = std::get_if<Launch>(&parts.steps[i])) {
      step["kind"] = "kernel", step["name"] = launch->name, step["stream"] = launch->lane;
      step["cores"] = launch->cores, step["range"] = launch->range, step["source"] = launch->source;
      for (const runtime::Pointer& pointer : launch->pointers)
        (pointer.written ? writes : reads).append(pointer.buffer);
      if (planned) step["barrier"] = static_cast<bool>(plan.barrier[i]);
    } else {
      const auto& island = std::get<Island>(parts.steps[i]);
      step["kind"] = "island", step["name"] = island.name;
      for (const runtime::TensorView& view : island.operands) reads.append(view.buffer);
      for (const runtime::TensorView& view : island.results) writes.append(view.buffer);
    }
    step["reads"] = reads, step["writes"] = writes;
    steps.append(step);
  }
  for (size_t i = 0; i < parts.buffers.size(); ++i) {
    nb::dict buffer;
    buffer["kind"] = name_of_kind(parts.buffers[i].kind);
    if (parts.buffers[i].input >= 0) buffer["input"] = parts.buffers[i].input;
    if (planned && parts.buffers[i].kind != runtime::BufferKind::kInput) buffer["bytes"] = plan.bytes[i];
    if (planned && plan.offsets[i] >= 0) buffer["offset"] = plan.offsets[i];
    buffers.append(buffer);
  }
  for (const runtime::Section& section : plan.sections) {
    nb::dict row;
    row["begin"] = section.begin, row["end"] = section.end, row["streams"] = section.lanes;
    sections.append(row);
  }
  nb::dict out;
  out["steps"] = steps, out["buffers"] = buffers, out["sections"] = sections;
  out["arena_bytes"] = plan.arena_bytes, out["symbols"] = parts.symbol_names;
  return out;
}

}  // namespace graphex::python
