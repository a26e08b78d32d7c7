#include "graphex/compile/function.h"

#include <cstdlib>
#include <new>
#include <optional>
#include <string>

#include "graphex/base/error.h"
#include "graphex/runtime/cpu/usable_cpus.h"
#include "graphex/runtime/overlap.h"

namespace graphex::compile {
namespace {

using runtime::BufferKind;
using runtime::TensorView;

constexpr size_t kAlignment = 64;

std::shared_ptr<void> allocate_bytes(int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded ? rounded : kAlignment);
  if (!memory) fail(ErrorKind::kOutOfMemory, "cannot allocate ", bytes, " bytes for a result");
  return {memory, std::free};
}

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(shape[d], 1);
  return strides;
}

std::vector<int64_t> values_of(const std::vector<runtime::SizeId>& ids, const runtime::Frame& frame) {
  std::vector<int64_t> values;
  values.reserve(ids.size());
  for (const runtime::SizeId id : ids) values.push_back(frame.value(id));
  return values;
}

}  // namespace

Tensor Tensor::over(void* data, DType dtype, std::vector<int64_t> shape) {
  std::vector<int64_t> strides = row_major(shape);
  return {dtype, std::move(shape), std::move(strides), data, nullptr};
}

Tensor Tensor::make(DType dtype, std::vector<int64_t> shape) {
  Tensor tensor = over(nullptr, dtype, std::move(shape));
  tensor.memory = allocate_bytes(tensor.numel() * size_of(dtype));
  tensor.data = tensor.memory.get();
  return tensor;
}

int64_t Tensor::numel() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Context Context::make() {
  return {std::make_shared<codegen::KernelCompiler>(), runtime::make_team(runtime::usable_cpus()), 0};
}

// One replay: the host that gives it memory.
class Function::Call : public runtime::Host {
 public:
  Call(const Function& function, std::span<const Tensor> inputs)
      : program_(*function.program_), parts_(program_.parts()), inputs_(inputs), memory_(parts_.buffers.size()) {
    frame_ = program_.take_frame(function.read_symbols(inputs));
  }
  ~Call() override { program_.give_back(std::move(frame_)); }

  const runtime::Frame& frame() const { return *frame_; }

  void bind() {
    for (size_t buffer = 0; buffer < parts_.buffers.size(); ++buffer)
      if (parts_.buffers[buffer].kind == BufferKind::kInput)
        frame_->bases[buffer] = static_cast<char*>(inputs_[parts_.buffers[buffer].input].data);
    std::vector<runtime::Layout> layouts;
    for (size_t i = 0; i < inputs_.size(); ++i)
      layouts.push_back(
          {inputs_[i].data, inputs_[i].shape, inputs_[i].strides, size_of(inputs_[i].dtype), parts_.input_written[i]});
    GX_CHECK(!runtime::writes_overlap(layouts),
             "an input that the graph writes shares memory with another input or with itself");
  }

  void run(runtime::Team& team, int workers) { program_.run(*frame_, team, workers, *this); }

  Tensor output(const TensorView& view) {
    const runtime::Buffer& buffer = parts_.buffers[view.buffer];
    Tensor result{view.dtype, values_of(view.shape, *frame_), values_of(view.strides, *frame_), nullptr, nullptr};
    char* base;
    if (buffer.kind == BufferKind::kInput) {
      result.memory = inputs_[buffer.input].memory;
      base = static_cast<char*>(inputs_[buffer.input].data);
    } else {
      if (!memory_[view.buffer]) allocate(view.buffer, *frame_);
      result.memory = memory_[view.buffer];
      base = static_cast<char*>(result.memory.get());
    }
    result.data = base ? base + frame_->value(view.byte_offset) : nullptr;
    return result;
  }

  void* allocate(int buffer, const runtime::Frame& frame) override {
    const TensorView& type = parts_.buffer_types[buffer];
    memory_[buffer] = allocate_bytes(
        runtime::extent_bytes(values_of(type.shape, frame), values_of(type.strides, frame), size_of(type.dtype)));
    return memory_[buffer].get();
  }
  void call(const runtime::Island& island, runtime::Frame&) override {
    fail(ErrorKind::kInternal, "island ", island.name, " in a function that has none");
  }
  void release(int buffer) override { memory_[buffer].reset(); }

 private:
  const runtime::Program& program_;
  const runtime::ProgramParts& parts_;
  std::span<const Tensor> inputs_;
  std::vector<std::shared_ptr<void>> memory_;
  std::unique_ptr<runtime::Frame> frame_;
};

Function::Function(const Context& context, std::string_view text, const Options& options)
    : Function(context, ir::parse(text), options) {}

Function::Function(const Context& context, std::unique_ptr<ir::Graph> graph, const Options& options)
    : context_(context) {
  for (const auto& input : graph->inputs) input_names_.push_back(input->name);
  for (size_t symbol = 0; symbol < graph->symbols.size(); ++symbol) {
    std::optional<SymbolSource> source;
    for (int i = 0; i < static_cast<int>(graph->inputs.size()); ++i) {
      const ir::Type& type = graph->inputs[i]->type;
      for (int d = 0; d < type.rank(); ++d) {
        if (!source && type.strides[d] == ir::Expr::symbol(symbol)) source = {i, d, true};
        if ((!source || source->stride) && type.shape[d] == ir::Expr::symbol(symbol)) source = {i, d, false};
      }
    }
    GX_CHECK(source, "symbol ", graph->symbols[symbol], " is neither a size nor a stride of any input of @",
             graph->name, ": give an input a dimension of that size");
    symbols_.push_back(*source);
  }
  for (const auto& node : graph->nodes)
    if (node->op == "island")
      fail(ErrorKind::kUnsupported, "%", node->out()->name,
           " is an island: a call into Python, which a C++ function has not");
  program_ = compile(std::move(graph), context.compiler, options, &report_);
}

std::vector<int64_t> Function::read_symbols(std::span<const Tensor> inputs) const {
  std::vector<int64_t> values;
  for (const SymbolSource& source : symbols_) {
    const Tensor& tensor = inputs[source.input];
    values.push_back(source.stride ? tensor.strides[source.dim] : tensor.shape[source.dim]);
  }
  return values;
}

void Function::check_input(int input, const Tensor& tensor, const runtime::Frame& frame) const {
  const TensorView& expected = program_->parts().input_types[input];
  const std::string& name = input_names_[input];
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const int64_t size = frame.value(expected.shape[d]);
    GX_CHECK(tensor.shape[d] == size, "input %", name, " has size ", tensor.shape[d], " in dimension ", d,
             "; expected ", size);
  }
  for (size_t d = 0; d < tensor.shape.size() && tensor.numel() > 0; ++d) {
    const int64_t stride = frame.value(expected.strides[d]);
    GX_CHECK(tensor.shape[d] == 1 || tensor.strides[d] == stride, "input %", name, " has stride ", tensor.strides[d],
             " in dimension ", d, "; expected ", stride);
  }
  GX_CHECK(tensor.data || tensor.numel() == 0, "input %", name, " has no memory");
}

std::vector<Tensor> Function::operator()(std::span<const Tensor> inputs) const {
  const runtime::ProgramParts& parts = program_->parts();
  GX_CHECK(inputs.size() == input_names_.size(), "expected ", input_names_.size(), " inputs, got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& expected = parts.input_types[i];
    GX_CHECK(inputs[i].dtype == expected.dtype, "input %", input_names_[i], " is ", name_of(inputs[i].dtype),
             "; expected ", name_of(expected.dtype));
    GX_CHECK(inputs[i].shape.size() == expected.shape.size() && inputs[i].strides.size() == expected.shape.size(),
             "input %", input_names_[i], " has ", inputs[i].shape.size(), " sizes and ", inputs[i].strides.size(),
             " strides; expected ", expected.shape.size(), " of each");
  }
  Call call(*this, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) check_input(static_cast<int>(i), inputs[i], call.frame());
  call.bind();
  call.run(*context_.team, context_.workers > 0 ? context_.workers : context_.team->size());
  std::vector<Tensor> outputs;
  for (const TensorView& view : parts.outputs) outputs.push_back(call.output(view));
  return outputs;
}

}  // namespace graphex::compile
