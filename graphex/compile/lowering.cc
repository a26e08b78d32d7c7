#include "graphex/compile/lowering.h"

#include <algorithm>
#include <bit>

#include "graphex/base/error.h"
#include "graphex/compile/kernel_table.h"
#include "graphex/kernels/indexing/indexing.h"
#include "graphex/ops/checks.h"

namespace graphex::compile {
namespace {

using runtime::Pointer;
using runtime::SizeId;
using runtime::SizeProgram;

class SizeBuilder : public ir::ExprBuilder {
 public:
  explicit SizeBuilder(SizeProgram& program) : program_(program) {}
  int constant(int64_t value) override { return program_.constant(value); }
  int symbol(int index) override { return program_.symbol(index); }
  int apply(Op op, int a, int b) override {
    constexpr SizeProgram::Op kOps[] = {SizeProgram::Op::kAdd, SizeProgram::Op::kMul, SizeProgram::Op::kFloorDiv,
                                        SizeProgram::Op::kMod, SizeProgram::Op::kMin, SizeProgram::Op::kMax};
    return program_.apply(kOps[static_cast<int>(op)], a, b);
  }

 private:
  SizeProgram& program_;
};

runtime::BufferKind kind_of(Home home) {
  return home == Home::kInput  ? runtime::BufferKind::kInput
         : home == Home::kHost ? runtime::BufferKind::kHost
                               : runtime::BufferKind::kArena;
}

// "add+mul+rsqrt": what a loop's launch is called in reports.
std::string loop_name(const Unit& unit) {
  std::string name;
  for (const ir::Node* node : unit.nodes) {
    if (name.size() > 40) return name + "+...";
    name += (name.empty() ? "" : "+") + node->op;
  }
  return name;
}

// The dimension along which elements lie side by side; -1: none.
int unit_dim(const ir::Type& type) {
  for (int d = 0; d < type.rank(); ++d)
    if (type.strides[d].is(1) && !type.shape[d].is(1)) return d;
  return -1;
}

// Whether a unit is a mere copy that reads along one dimension and writes along another: a loop would read single
// elements of many lines.
bool is_transpose(const Unit& unit) {
  const ir::Node& node = *unit.nodes[0];
  if (unit.nodes.size() != 1 || node.op != "copy" || is_inline(ops::base_of(node.inputs[0]))) return false;
  const ir::Type &from = node.inputs[0]->type, &to = node.out()->type;
  const int across = unit_dim(from), along = unit_dim(to);
  return from.shape == to.shape && to.rank() <= kernels::kMaxRank && across >= 0 && along >= 0 && across != along &&
         !from.strides[along].is(0);
}

}  // namespace

Lowering::Lowering(const ir::Graph& graph, const std::vector<std::unique_ptr<Unit>>& units, const Storage& storage,
                   const LoopOptions& loop_options)
    : graph_(graph), units_(units), storage_(storage), loop_options_(loop_options) {
  parts_.symbols = static_cast<int>(graph.symbols.size());
  parts_.symbol_names = graph.symbols;
  parts_.inputs = static_cast<int>(graph.inputs.size());
  parts_.input_written.assign(graph.inputs.size(), false);
  for (const Block& block : storage.blocks)
    parts_.buffers.push_back({kind_of(block.home), block.input, size(block.bytes), -1, -1, -1, block.result});
}

SizeId Lowering::size(const ir::Expr& expr) {
  SizeBuilder builder(parts_.sizes);
  return expr.build(builder);
}

SizeId Lowering::bits_of(double number) { return parts_.sizes.constant(std::bit_cast<int64_t>(number)); }

SizeId Lowering::extent_bytes(const ir::Type& type) {
  ir::Expr last(0);
  for (int d = 0; d < type.rank(); ++d)
    if (!type.strides[d].is(0)) last = last + (type.shape[d] - ir::Expr(1)) * type.strides[d];
  return size((last + ir::Expr(1)) * ir::Expr(size_of(type.dtype)));
}

Pointer Lowering::pointer_at(ir::Value* base, const ir::Expr& offset, bool written) {
  const Place& place = storage_.place(base);
  const ir::Expr bytes = (place.offset + offset) * ir::Expr(size_of(base->type.dtype));
  return {place.block, size(bytes), extent_bytes(base->type), written};
}

Pointer Lowering::pointer(ir::Value* value, bool written) {
  // A view's offset is absolute in its base, so only the outermost one counts.
  const ir::Expr offset = value->node && value->node->op == "view" ? value->node->expr("offset") : ir::Expr(0);
  Pointer at = pointer_at(ops::base_of(value), offset, written);
  at.bytes = extent_bytes(value->type);
  return at;
}

Pointer Lowering::workspace() {
  parts_.buffers.push_back({runtime::BufferKind::kArena, -1, size(0), -1, -1, -1, false});
  return {static_cast<int>(parts_.buffers.size()) - 1, size(0), size(0), true};
}

Pointer Lowering::temporary(const ir::Expr& bytes) {
  parts_.buffers.push_back({runtime::BufferKind::kArena, -1, size(bytes), -1, -1, -1, false});
  return {static_cast<int>(parts_.buffers.size()) - 1, size(0), size(bytes), true};
}

void Lowering::launch(codegen::KernelRequest request, std::string name, std::vector<Pointer> pointers,
                      std::vector<SizeId> sizes, bool owns_workspace) {
  const int step = static_cast<int>(parts_.steps.size());
  if (owns_workspace) parts_.buffers[pointers.back().buffer].workspace_of = step;
  for (const Pointer& pointer : pointers)
    if (pointer.written && parts_.buffers[pointer.buffer].kind == runtime::BufferKind::kInput)
      parts_.input_written[parts_.buffers[pointer.buffer].input] = true;
  request_of_step_.push_back(static_cast<int>(requests_.size()));
  requests_.push_back(std::move(request));
  runtime::Launch made;
  made.name = std::move(name);
  made.pointers = std::move(pointers);
  made.sizes = std::move(sizes);
  parts_.steps.push_back(std::move(made));
}

void Lowering::hand(const std::string& module, const std::string& entry,
                    std::vector<std::pair<std::string, int64_t>> knobs, const ir::Node& node,
                    std::vector<Pointer> pointers, std::vector<SizeId> sizes, bool owns_workspace) {
  launch(codegen::HandKernel{module, entry, std::move(knobs)}, node.op, std::move(pointers), std::move(sizes),
         owns_workspace);
}

void Lowering::copy(ir::Value* from, Pointer to, const std::vector<ir::Expr>& strides) {
  to.written = true;
  const LoweredLoop loop = copy_loop(from->type.dtype, from->type.shape, from->type.strides, strides);
  std::vector<SizeId> sizes;
  for (const ir::Expr& expr : loop.sizes) sizes.push_back(size(expr));
  launch(codegen::LoopKernel{loop.spec}, "copy", {pointer(from), to}, std::move(sizes));
}

void Lowering::start_overwrite(const ir::Node& node) {
  if (storage_.in_place.count(&node)) return;
  copy(node.inputs[ops::op_of(node).overwrites], pointer(node.out(), true), node.out()->type.strides);
}

void Lowering::lower_transpose(const ir::Node& node) {
  const ir::Type &from = node.inputs[0]->type, &to = node.out()->type;
  std::vector<SizeId> sizes(kernels::kCopySizes, size(0));
  sizes[kernels::kCopyRank] = size(to.rank());
  for (int d = 0; d < to.rank(); ++d) {
    sizes[kernels::kCopyShape + d] = size(to.shape[d]);
    sizes[kernels::kCopyOutStrides + d] = size(to.strides[d]);
    sizes[kernels::kCopyInStrides + d] = size(from.strides[d]);
  }
  hand("copy", "gx_copy", {{"GX_ELEMENT_BYTES", size_of(to.dtype)}}, node,
       {pointer(node.out(), true), pointer(node.inputs[0])}, std::move(sizes));
}

void Lowering::lower_loop_unit(const Unit& unit) {
  if (is_transpose(unit)) return lower_transpose(*unit.nodes[0]);
  const LoweredLoop loop = lower_loop(unit, loop_options_);
  std::vector<Pointer> pointers;
  for (const LoopAccess& access : loop.operands) pointers.push_back(pointer(access.value, access.written));
  std::vector<SizeId> sizes;
  for (const ir::Expr& expr : loop.sizes) sizes.push_back(size(expr));
  for (const auto& [expr, is_float] : loop.scalars)
    sizes.push_back(is_float ? parts_.sizes.double_bits(size(expr)) : size(expr));
  launch(codegen::LoopKernel{loop.spec}, loop_name(unit), std::move(pointers), std::move(sizes));
}

runtime::TensorView Lowering::view_of(ir::Value* value) {
  const Pointer at = pointer(value);
  runtime::TensorView view{at.buffer, at.byte_offset, value->type.dtype, {}, {}};
  for (const ir::Expr& extent : value->type.shape) view.shape.push_back(size(extent));
  for (const ir::Expr& stride : value->type.strides) view.strides.push_back(size(stride));
  return view;
}

void Lowering::lower_island(const ir::Node& node) {
  runtime::Island island{
      static_cast<int>(node.integer("call")), node.has("name") ? node.text("name") : "island", {}, {}, {}};
  for (ir::Value* operand : node.inputs) island.operands.push_back(view_of(operand));
  if (node.has("ints"))
    for (const ir::Expr& expr : node.exprs("ints")) island.ints.push_back(size(expr));
  for (const auto& output : node.outputs) island.results.push_back(view_of(output.get()));
  request_of_step_.push_back(-1);
  parts_.steps.push_back(std::move(island));
}

void Lowering::lower_unit(const Unit& unit) {
  ir::Node& node = *unit.nodes[0];
  if (unit.loop) return unit.stores.empty() ? void() : lower_loop_unit(unit);
  if (node.op == "island") return lower_island(node);
  const KernelLowering lower = kernel_for(node);
  if (!lower)
    fail(ErrorKind::kUnsupported, ops::label(node), ": no kernel for ", name_of(node.inputs[0]->type.dtype),
         "; the frontend should leave it to an island");
  lower(*this, node);
}

// Notes with a node's launches what its scopes said.
void Lowering::mark(const ir::Node& node, size_t first_step) {
  const auto number = [&](const char* name) { return node.has(name) ? static_cast<int>(node.integer(name)) : 0; };
  const int lane = number("lane");
  for (size_t step = first_step; step < parts_.steps.size(); ++step) {
    auto* launch = std::get_if<runtime::Launch>(&parts_.steps[step]);
    if (!launch) continue;
    launch->lane = lane < runtime::kMaxLanes ? lane : 1 + lane % (runtime::kMaxLanes - 1);
    launch->lane_cores = number("lane_cores");
    launch->round = number("round");
    launch->cores = number("cores");
    if (node.has("range")) launch->range = node.text("range");
    if (node.has("at")) launch->source = node.text("at");
  }
}

void Lowering::run() {
  for (const auto& unit : units_) {
    const size_t first_step = parts_.steps.size();
    lower_unit(*unit);
    mark(*unit->nodes[0], first_step);
  }
  for (const ir::Write& write : storage_.copies)
    copy(write.value, pointer(write.input, true), write.input->type.strides);
  parts_.buffer_types.resize(parts_.buffers.size());
  for (ir::Value* output : graph_.outputs) parts_.outputs.push_back(view_of(output));
  for (const auto& input : graph_.inputs) parts_.input_types.push_back(view_of(input.get()));
  for (const auto& [base, place] : storage_.places)
    if (storage_.blocks[place.block].home == Home::kHost && place.offset.is(0))
      parts_.buffer_types[place.block] = view_of(const_cast<ir::Value*>(base));
  set_lifetimes();
}

// Lifetimes in steps: what the launches touch, and for host buffers what islands and the end of the program touch.
void Lowering::set_lifetimes() {
  auto touch = [&](int index, int step) {
    runtime::Buffer& buffer = parts_.buffers[index];
    buffer.first = buffer.first < 0 ? step : std::min(buffer.first, step);
    buffer.last = std::max(buffer.last, step);
  };
  for (int step = 0; step < static_cast<int>(parts_.steps.size()); ++step) {
    if (const auto* launch = std::get_if<runtime::Launch>(&parts_.steps[step])) {
      for (const Pointer& pointer : launch->pointers) touch(pointer.buffer, step);
    } else {
      const auto& island = std::get<runtime::Island>(parts_.steps[step]);
      for (const auto& operand : island.operands) touch(operand.buffer, step);
      for (const auto& result : island.results) touch(result.buffer, step);
    }
  }
}

runtime::ProgramParts Lowering::finish(const std::vector<codegen::Kernel>& kernels) {
  for (size_t step = 0; step < parts_.steps.size(); ++step) {
    auto* launch = std::get_if<runtime::Launch>(&parts_.steps[step]);
    if (!launch) continue;
    const codegen::Kernel& kernel = kernels[request_of_step_[step]];
    launch->kernel = kernel.run;
    launch->tiles = kernel.tiles ? kernel.tiles : [](const int64_t*) -> int64_t { return 1; };
    launch->workspace = kernel.workspace;
    launch->divisible = kernel.divisible;
  }
  return std::move(parts_);
}

}  // namespace graphex::compile
