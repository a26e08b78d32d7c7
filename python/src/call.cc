#include "call.h"

#include <algorithm>
#include <string>

#include "graphex/base/error.h"
#include "graphex/runtime/huge_pages.h"
#include "graphex/runtime/overlap.h"
#include "streams.h"
#include "trace.h"

namespace graphex::python {

using runtime::BufferKind;
using runtime::TensorView;

Call::Call(Compiled& compiled, std::vector<nb::object> args)
    : compiled_(compiled), parts_(compiled.program_->parts()), args_(std::move(args)) {
  const Signature& signature = compiled_.signature_;
  GX_CHECK(args_.size() == signature.args.size(), "graphex: the compiled graph takes ", signature.args.size(),
           " arguments, got ", args_.size());
  infos_.resize(parts_.inputs);
  for (const int input : compiled_.used_inputs())
    infos_[input] = read_tensor(input_tensor(input), "argument", std::max(signature.arg_of_input[input], 0));
  bind_symbols();
  frame_ = compiled_.program_->take_frame(symbols_, compiled_.pool_);
  frame_->profile = compiled_.options_.profile;
  bind_inputs();
  if (compiled_.writes_) find_reason_for_eager();
}

Call::~Call() {
  if (frame_) compiled_.program_->give_back(std::move(frame_));
}

nb::handle Call::input_tensor(int input) const {
  const int arg = compiled_.signature_.arg_of_input[input];
  if (arg >= 0) return args_[arg];
  for (const auto& [index, tensor] : compiled_.signature_.constants)
    if (index == input) return tensor;
  GX_ASSERT(false);
}

void Call::bind_symbols() {
  const Signature& signature = compiled_.signature_;
  for (const SymbolSpec& spec : signature.symbols) {
    if (spec.kind == SymbolSpec::kArg) {
      symbols_.push_back(nb::cast<int64_t>(args_[spec.arg]));
      continue;
    }
    const TensorInfo& info = infos_[signature.args[spec.arg].index];
    GX_CHECK(spec.dim < info.rank, "graphex: argument ", spec.arg, " has ", info.rank,
             " dimensions; expected more than ", spec.dim);
    symbols_.push_back(spec.kind == SymbolSpec::kSize ? info.shape[spec.dim] : info.strides[spec.dim]);
  }
}

void Call::bind_inputs() {
  for (size_t buffer = 0; buffer < parts_.buffers.size(); ++buffer)
    if (parts_.buffers[buffer].kind == BufferKind::kInput)
      frame_->bases[buffer] = infos_[parts_.buffers[buffer].input].data;
  for (const int input : compiled_.used_inputs()) check_input(input, infos_[input]);
  tensors_.resize(parts_.buffers.size());
}

void Call::check_input(int input, const TensorInfo& info) {
  const TensorView& expected = parts_.input_types[input];
  const int arg = compiled_.signature_.arg_of_input[input];
  GX_CHECK(info.dtype == expected.dtype, "graphex: argument ", arg, " is ", name_of(info.dtype),
           "; the graph was compiled for ", name_of(expected.dtype));
  GX_CHECK(info.rank == static_cast<int>(expected.shape.size()), "graphex: argument ", arg, " has ", info.rank,
           " dimensions; the graph was compiled for ", expected.shape.size());
  bool empty = false;
  for (int d = 0; d < info.rank; ++d) {
    const int64_t extent = frame_->value(expected.shape[d]);
    GX_CHECK(info.shape[d] == extent, "graphex: argument ", arg, " has size ", info.shape[d], " in dimension ", d,
             "; the graph expects ", extent);
    empty |= extent == 0;
  }
  for (int d = 0; d < info.rank && !empty; ++d)
    GX_CHECK(info.shape[d] == 1 || info.strides[d] == frame_->value(expected.strides[d]), "graphex: argument ", arg,
             " has stride ", info.strides[d], " in dimension ", d, "; the graph expects ",
             frame_->value(expected.strides[d]));
}

// Memory that the program writes and another input shares, or a tensor of inference mode outside of it: eager does, or
// raises, what is right then.
void Call::find_reason_for_eager() {
  if (writes_inference_tensor()) {
    eager_ = true;
    return;
  }
  std::vector<runtime::Layout> inputs;
  inputs.reserve(infos_.size());
  for (const int input : compiled_.used_inputs()) {
    const TensorInfo& info = infos_[input];
    const size_t rank = static_cast<size_t>(info.rank);
    inputs.push_back(
        {info.data, {info.shape, rank}, {info.strides, rank}, size_of(info.dtype), parts_.input_written[input]});
  }
  eager_ = runtime::writes_overlap(inputs);
}

bool Call::writes_inference_tensor() const {
  for (const int input : compiled_.used_inputs())
    if (parts_.input_written[input] && nb::cast<bool>(input_tensor(input).attr("is_inference")()))
      return !nb::cast<bool>(Torch::get().is_inference_mode_enabled());
  return false;
}

size_t Call::move_inputs_to_huge_pages() const {
  std::vector<runtime::MemoryRange> ranges;
  for (const int input : compiled_.used_inputs()) {
    const TensorInfo& info = infos_[input];
    const size_t rank = static_cast<size_t>(info.rank);
    const int64_t bytes = runtime::extent_bytes({info.shape, rank}, {info.strides, rank}, size_of(info.dtype));
    ranges.push_back({info.data, static_cast<size_t>(bytes)});
  }
  const GilRelease unlocked;
  return runtime::move_to_huge_pages(std::move(ranges));
}

std::vector<int64_t> Call::values_of(const std::vector<runtime::SizeId>& ids) const {
  std::vector<int64_t> values;
  values.reserve(ids.size());
  for (const runtime::SizeId id : ids) values.push_back(frame_->value(id));
  return values;
}

// `most`: of the stream; 0 is as many as PyTorch uses.
int Call::workers(int most) const {
  const int own = compiled_.options_.threads;
  if (own > 0) return within_core_limit(most > 0 ? std::min(own, most) : own);
  return within_core_limit(most > 0 ? most : nb::cast<int>(Torch::get().get_num_threads()));
}

void Call::run() { run_on(shared_team(), workers(0)); }

// The trace of a replay that went wrong is kept too.
void Call::run_on(runtime::Team& team, int workers) {
  struct Keeper {
    const runtime::Program& program;
    runtime::Frame& frame;
    ~Keeper() {
      if (frame.traced) keep_trace(program, frame);
    }
  };
  frame_->traced = tracing();
  const Keeper keeper{*compiled_.program_, *frame_};
  compiled_.program_->run(*frame_, team, workers, *this);
}

bool Call::can_be_queued() const {
  return !eager_ && compiled_.program_->islands() == 0 && parts_.outputs.empty() &&
         compiled_.signature_.outputs.empty();
}

void Call::queue(std::unique_ptr<Call> call, runtime::Stream& stream, nb::object owner) {
  call->owner_ = std::move(owner);
  const int workers = call->workers(stream.settings().cores);
  const std::shared_ptr<Call> queued(call.release(), [](Call* done) {
    done->compiled_.program_->give_back(std::move(done->frame_));
    release_later(std::unique_ptr<Call>(done));
  });
  stream.enqueue([queued, workers](runtime::Team& team) {
    queued->run_on(team, workers);
    queued->compiled_.count_call();
  });
}

void* Call::allocate(int buffer, const runtime::Frame&) {
  const TensorView& type = parts_.buffer_types[buffer];
  tensors_[buffer] = make_tensor(values_of(type.shape), values_of(type.strides), type.dtype);
  return read_tensor(tensors_[buffer], "result", buffer).data;
}

bool Call::is_layout(const TensorView& view, const TensorView& base) const {
  if (frame_->value(view.byte_offset) != frame_->value(base.byte_offset) || view.shape.size() != base.shape.size())
    return false;
  for (size_t d = 0; d < view.shape.size(); ++d)
    if (frame_->value(view.shape[d]) != frame_->value(base.shape[d]) ||
        frame_->value(view.strides[d]) != frame_->value(base.strides[d]))
      return false;
  return true;
}

nb::object Call::view_at(nb::handle base, const TensorView& view) {
  const int64_t start = nb::cast<int64_t>(base.attr("storage_offset")());  // an island may return a slice
  return make_view(base, values_of(view.shape), values_of(view.strides),
                   start + frame_->value(view.byte_offset) / size_of(view.dtype));
}

nb::object Call::tensor_at(const TensorView& view) {
  const runtime::Buffer& buffer = parts_.buffers[view.buffer];
  if (buffer.kind == BufferKind::kInput) return view_at(input_tensor(buffer.input), view);
  GX_ASSERT(buffer.kind == BufferKind::kHost);
  const nb::object& base = tensors_[view.buffer];
  return is_layout(view, parts_.buffer_types[view.buffer]) ? base : view_at(base, view);
}

void Call::call(const runtime::Island& island, runtime::Frame& frame) {
  nb::list operands;
  for (const TensorView& view : island.operands) operands.append(tensor_at(view));
  for (const runtime::SizeId id : island.ints) operands.append(frame.value(id));
  const nb::object function = compiled_.islands_[island.call];
  const nb::tuple arguments(operands);
  // Nothing in here owns a Python object: see gil.h.
  PyObject* const result = with_python([&] { return PyObject_CallObject(function.ptr(), arguments.ptr()); });
  if (!result) throw nb::python_error();
  const nb::object made = nb::steal(result);
  GX_CHECK(nb::len(made) == island.results.size(), "graphex: island ", island.name, " returned ", nb::len(made),
           " tensors; expected ", island.results.size());
  for (size_t i = 0; i < island.results.size(); ++i) {
    const TensorView& view = island.results[i];
    tensors_[view.buffer] = nb::object(made[i]);
    const TensorInfo info =
        read_tensor(tensors_[view.buffer], ("result of island " + island.name).c_str(), static_cast<int>(i));
    GX_CHECK(info.dtype == view.dtype && info.rank == static_cast<int>(view.shape.size()), "graphex: island ",
             island.name, " returned another dtype or rank than the graph expects");
    for (int d = 0; d < info.rank; ++d)
      GX_CHECK(info.shape[d] == frame.value(view.shape[d]) &&
                   (info.shape[d] <= 1 || info.strides[d] == frame.value(view.strides[d])),
               "graphex: island ", island.name, " returned size ", info.shape[d], " and stride ", info.strides[d],
               " in dimension ", d, "; the graph expects ", frame.value(view.shape[d]), " and ",
               frame.value(view.strides[d]));
    frame.bases[view.buffer] = info.data;
  }
}

// Two values are two tensors, also when they are all of one buffer.
std::vector<nb::object> Call::output_tensors() {
  std::vector<nb::object> made;
  made.reserve(parts_.outputs.size());
  for (const TensorView& view : parts_.outputs) {
    nb::object tensor = tensor_at(view);
    const bool again = std::any_of(made.begin(), made.end(), [&](const nb::object& one) { return one.is(tensor); });
    made.push_back(again ? view_at(tensors_[view.buffer], view) : std::move(tensor));
  }
  return made;
}

nb::list Call::results() {
  const std::vector<nb::object> tensors = output_tensors();
  nb::list out;
  for (const OutputSpec& spec : compiled_.signature_.outputs) {
    if (spec.kind == OutputSpec::kValue)
      out.append(tensors[spec.index]);
    else if (spec.kind == OutputSpec::kArg)
      out.append(args_[spec.index]);
    else if (spec.kind == OutputSpec::kInt)
      out.append(spec.expr.eval(symbols_));
    else
      out.append(spec.object);
  }
  return out;
}

}  // namespace graphex::python
