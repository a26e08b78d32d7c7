#include "compiled.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>

#include "call.h"
#include "graphex/base/error.h"
#include "graphex/runtime/cpu/usable_cpus.h"
#include "streams.h"

namespace graphex::python {
namespace {

std::vector<int> inputs_in_use(const runtime::ProgramParts& parts, const Signature& signature) {
  std::vector<bool> used(parts.inputs, false);
  for (const runtime::Buffer& buffer : parts.buffers)
    if (buffer.kind == runtime::BufferKind::kInput && buffer.first >= 0) used[buffer.input] = true;
  for (const runtime::TensorView& output : parts.outputs)
    if (const int input = parts.buffers[output.buffer].input; input >= 0) used[input] = true;
  for (const SymbolSpec& spec : signature.symbols)
    if (spec.kind != SymbolSpec::kArg) used[signature.args[spec.arg].index] = true;
  std::vector<int> inputs;
  for (int input = 0; input < parts.inputs; ++input)
    if (used[input]) inputs.push_back(input);
  return inputs;
}

thread_local bool capturing = false;

void refuse_in_capture() {
  if (capturing)
    fail(ErrorKind::kRuntime,
         "graphex: a compiled graph was called in a captured region, where nothing may compute; call the function it "
         "was compiled from, or capture around torch.compile");
}

}  // namespace

void set_capturing(bool now) { capturing = now; }

runtime::Team& shared_team() {
  static runtime::Team* team = runtime::make_team(runtime::usable_cpus()).release();  // workers may outlive main
  return *team;
}

Compiled::Compiled(std::shared_ptr<const runtime::Program> program, Signature signature, nb::list islands,
                   compile::Report report, CallOptions options)
    : program_(std::move(program)),
      signature_(std::move(signature)),
      islands_(std::move(islands)),
      report_(std::move(report)),
      options_(options) {
  const std::vector<bool>& written = program_->parts().input_written;
  writes_ = std::find(written.begin(), written.end(), true) != written.end();
  used_inputs_ = inputs_in_use(program_->parts(), signature_);
}

bool Compiled::enqueue(nb::object self, nb::list list, runtime::Stream& stream) {
  refuse_in_capture();
  release_now();
  std::vector<nb::object> args;
  for (nb::handle arg : list) args.push_back(nb::borrow(arg));
  auto call = std::make_unique<Call>(*this, std::move(args));
  if (!call->can_be_queued()) return false;
  if (options_.huge_pages && !called_.exchange(true)) huge_page_bytes_ = call->move_inputs_to_huge_pages();
  Call::queue(std::move(call), stream, std::move(self));
  list.clear();
  return true;
}

void Compiled::count_call() {
  const std::lock_guard lock(mutex_);
  ++calls_;
}

nb::list Compiled::call(nb::list list) {
  const auto start = std::chrono::steady_clock::now();
  refuse_in_capture();
  settle();
  std::vector<nb::object> args;
  args.reserve(nb::len(list));
  for (nb::handle arg : list) args.push_back(nb::borrow(arg));
  list.clear();
  Call call(*this, std::move(args));
  if (call.must_run_eagerly() && !signature_.eager.is_none()) {
    nb::list again;
    for (nb::object& arg : call.take_args()) again.append(std::move(arg));
    {
      const std::lock_guard lock(mutex_);
      ++eager_calls_;
    }
    return nb::list(signature_.eager(again));
  }
  if (options_.huge_pages && !called_.exchange(true)) huge_page_bytes_ = call.move_inputs_to_huge_pages();
  call.run();
  nb::list results = call.results();
  const std::lock_guard lock(mutex_);
  ++calls_;
  last_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  total_seconds_ += last_seconds_;
  return results;
}

nb::dict Compiled::explain() const {
  const runtime::ProgramParts& parts = program_->parts();
  nb::dict out;
  out["nodes"] = report_.nodes;
  out["islands"] = program_->islands();
  out["launches"] = program_->launches();
  out["kernels"] = report_.kernels;
  out["barriers"] = program_->last_plan().barriers;
  out["sections"] = program_->last_plan().sections.size();
  out["arena_bytes"] = program_->last_plan().arena_bytes;
  out["plans"] = program_->plans_made();
  out["inputs"] = parts.inputs;
  out["huge_page_bytes"] = huge_page_bytes_.load();
  out["symbols"] = parts.symbols;
  out["compile_seconds"] = report_.seconds;
  out["kernel_seconds"] = report_.kernel_seconds;
  out["calls"] = calls_;
  out["eager_calls"] = eager_calls_;
  out["last_call_seconds"] = last_seconds_;
  out["total_call_seconds"] = total_seconds_;
  out["team"] = shared_team().kind();
  nb::list passes;
  for (const auto& pass : report_.passes) passes.append(nb::make_tuple(pass.name, pass.seconds));
  out["passes"] = passes;
  nb::list launches;
  const std::vector<runtime::LaunchTime> times = program_->profile();
  for (size_t i = 0; i < parts.steps.size(); ++i)
    if (const auto* launch = std::get_if<runtime::Launch>(&parts.steps[i])) {
      nb::dict row;
      row["name"] = launch->name;
      row["seconds"] = i < times.size() ? times[i].nanoseconds * 1e-9 : 0.0;
      row["bytes"] = i < times.size() ? times[i].bytes : 0;
      launches.append(row);
    }
  out["steps"] = launches;
  return out;
}

int Compiled::traverse(visitproc visit, void* arg) const {
  Py_VISIT(islands_.ptr());
  Py_VISIT(signature_.eager.ptr());
  for (const auto& [index, tensor] : signature_.constants) Py_VISIT(tensor.ptr());
  return 0;
}

void Compiled::clear() {
  islands_ = nb::list();
  signature_.eager = nb::none();
}

}  // namespace graphex::python
