#include "graphex/ops/reference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "graphex/ops/checks.h"

namespace graphex::ops::reference {
namespace {

double round_to_bf16(float x) {
  if (std::isnan(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t low = bits & 0xffff, up = bits >> 16;
  return std::bit_cast<float>((low > 0x8000 || (low == 0x8000 && (up & 1)) ? up + 1 : up) << 16);
}

int64_t wrap(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kBool:
      return value != 0;
    case DType::kU8:
      return static_cast<uint8_t>(value);
    case DType::kI8:
      return static_cast<int8_t>(value);
    case DType::kI16:
      return static_cast<int16_t>(value);
    case DType::kI32:
      return static_cast<int32_t>(value);
    default:
      return value;
  }
}

int64_t whole(double value) {
  if (!(std::fabs(value) < 0x1p63)) return INT64_MIN;  // what hardware gives; PyTorch leaves it open
  return static_cast<int64_t>(value);
}

// Null when no operator's file has one.
Evaluator evaluator_of(std::string_view op) {
  for (const Evaluators* evaluators : {&compute_evaluators(), &movement_evaluators(), &sorting_evaluators()})
    if (const auto it = evaluators->find(op); it != evaluators->end()) return it->second;
  return nullptr;
}

class Evaluation {
 public:
  Evaluation(const ir::Graph& graph, std::span<const int64_t> symbols) : graph_(graph), symbols_(symbols) {}

  Results run(std::vector<Array> inputs) {
    GX_CHECK(inputs.size() == graph_.inputs.size(), "the graph takes ", graph_.inputs.size(), " inputs, got ",
             inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      GX_CHECK(inputs[i].shape == empty(graph_.inputs[i]->type).shape, "input ", i,
               " has another shape than the graph's");
      define(graph_.inputs[i].get(), inputs[i]);
    }
    for (const auto& node : graph_.nodes) evaluate_node(*node);
    Results results{{}, std::move(inputs)};
    for (const ir::Value* output : graph_.outputs) results.outputs.push_back(values_.at(output));
    for (const ir::Write& write : graph_.writes) results.inputs[write.input->index] = values_.at(write.value);
    return results;
  }

 private:
  std::vector<int64_t> sizes(const std::vector<ir::Expr>& exprs) const {
    std::vector<int64_t> result;
    for (const ir::Expr& expr : exprs) result.push_back(expr.eval(symbols_));
    return result;
  }

  Array empty(const ir::Type& type) const {
    Array array{type.dtype, sizes(type.shape), {}};
    array.data.resize(static_cast<size_t>(numel(array.shape)));
    return array;
  }

  static int64_t dot(std::span<const int64_t> index, std::span<const int64_t> strides) {
    int64_t sum = 0;
    for (size_t d = 0; d < index.size(); ++d) sum += index[d] * strides[d];
    return sum;
  }

  // A base: its elements, and where its type's strides put them.
  void define(const ir::Value* value, Array array) {
    const std::vector<int64_t> strides = sizes(value->type.strides);
    auto& memory = memory_[value];
    size_t k = 0;
    for (Index i(array.shape); i.valid(); i.next()) {
      const auto at = static_cast<size_t>(dot(i.at(), strides));
      if (at >= memory.size()) memory.resize(at + 1);
      memory[at] = array.data[k++];
    }
    values_[value] = std::move(array);
  }

  void evaluate_view(const ir::Node& node) {
    Array result = empty(node.out()->type);
    const std::vector<int64_t> strides = sizes(node.out()->type.strides);
    const int64_t offset = node.expr("offset").eval(symbols_);
    const auto& memory = memory_.at(base_of(node.out()));
    size_t k = 0;
    for (Index i(result.shape); i.valid(); i.next()) {
      const int64_t at = offset + dot(i.at(), strides);
      require(at >= 0 && at < static_cast<int64_t>(memory.size()), node, "reaches beyond its base: element ", at,
              " of ", memory.size());
      result.data[k++] = memory[static_cast<size_t>(at)];
    }
    values_[node.out()] = std::move(result);
  }

  void evaluate_node(const ir::Node& node) {
    if (node.op == "view") return evaluate_view(node);
    std::vector<Array> results;
    for (const auto& output : node.outputs) results.push_back(empty(output->type));
    Call call{node, symbols_, {}, {}};
    for (const ir::Value* operand : node.inputs) call.in.push_back(&values_.at(operand));
    for (Array& result : results) call.out.push_back(&result);
    dispatch(call);
    for (size_t i = 0; i < results.size(); ++i) {
      for (Number& number : results[i].data) number = round_to(results[i].dtype, number);
      define(node.outputs[i].get(), std::move(results[i]));
    }
  }

  static void dispatch(const Call& call) {
    switch (op_of(call.node).kind) {
      case OpKind::kScalar:
        return evaluate_scalar(call);
      case OpKind::kCast:
      case OpKind::kCopy:
        return evaluate_cast(call);
      case OpKind::kSource:
        return call.node.op == "full" ? evaluate_full(call) : evaluate_iota(call);
      default:
        break;
    }
    if (const Evaluator evaluate = evaluator_of(call.node.op)) return evaluate(call);
    fail(ErrorKind::kUnsupported, label(call.node), ": only a host can run it");
  }

  static void evaluate_scalar(const Call& call) {
    const DType compute = compute_type(call.in.back()->dtype);
    std::vector<Number> args(call.in.size());
    size_t k = 0;
    for (Index i(call.out[0]->shape); i.valid(); i.next()) {
      for (size_t a = 0; a < args.size(); ++a) args[a] = element(*call.in[a], i.at());
      call.out[0]->data[k++] = round_to(compute_type(call.out[0]->dtype), scalar(call.node.op, compute, args));
    }
  }

  static void evaluate_cast(const Call& call) {
    for (size_t k = 0; k < call.in[0]->data.size(); ++k)
      call.out[0]->data[k] = convert(call.in[0]->dtype, call.out[0]->dtype, call.in[0]->data[k]);
  }

  static void evaluate_full(const Call& call) {
    const ir::Attr& attr = call.node.attrs.at("value");
    Number value;
    if (const double* real = std::get_if<double>(&attr))
      value = convert(DType::kF64, call.out[0]->dtype, {*real, 0});
    else if (const bool* flag = std::get_if<bool>(&attr))
      value = convert(DType::kBool, call.out[0]->dtype, {0, *flag});
    else
      value = convert(DType::kI64, call.out[0]->dtype, {0, call.size(call.node.expr("value"))});
    for (Number& each : call.out[0]->data) each = value;
  }

  static void evaluate_iota(const Call& call) {
    const auto start = static_cast<uint64_t>(call.size(call.node.expr("start")));
    const auto step = static_cast<uint64_t>(call.size(call.node.expr("step")));
    for (size_t k = 0; k < call.out[0]->data.size(); ++k)
      call.out[0]->data[k].i = static_cast<int64_t>(start + step * k);
  }

  const ir::Graph& graph_;
  std::span<const int64_t> symbols_;
  std::unordered_map<const ir::Value*, Array> values_;
  std::unordered_map<const ir::Value*, std::vector<Number>> memory_;  // of bases, in their layout
};

}  // namespace

int64_t numel(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

void Index::next() {
  --left_;
  for (size_t d = shape_.size(); d-- > 0;) {
    if (++at_[d] < shape_[d]) return;
    at_[d] = 0;
  }
}

size_t position(const Array& array, std::span<const int64_t> index) {
  const size_t skip = index.size() - array.shape.size();
  int64_t at = 0;
  for (size_t d = 0; d < array.shape.size(); ++d)
    at = at * array.shape[d] + (array.shape[d] == 1 ? 0 : index[d + skip]);
  return static_cast<size_t>(at);
}

std::vector<int64_t> Call::sizes(const std::vector<ir::Expr>& exprs) const {
  std::vector<int64_t> result;
  for (const ir::Expr& expr : exprs) result.push_back(size(expr));
  return result;
}

Number round_to(DType dtype, Number n) {
  switch (dtype) {
    case DType::kF64:
      return {n.f, 0};
    case DType::kF32:
      return {static_cast<float>(n.f), 0};
    case DType::kBF16:
      return {round_to_bf16(static_cast<float>(n.f)), 0};
    case DType::kF16:
      return {static_cast<double>(static_cast<_Float16>(static_cast<float>(n.f))), 0};
    default:
      return {0, wrap(dtype, n.i)};
  }
}

Number convert(DType from, DType to, Number n) {
  if (to == DType::kBool) return {0, is_float(from) ? n.f != 0 : n.i != 0};
  if (is_float(from) && !is_float(to)) return round_to(to, {0, whole(n.f)});
  if (!is_float(from) && is_float(to))
    return round_to(to, {to == DType::kF64 ? static_cast<double>(n.i) : static_cast<float>(n.i), 0});
  return round_to(to, n);
}

bool has_reference(std::string_view op) {
  const OpDef* def = find_op(op);
  if (!def || def->kind == OpKind::kIsland) return false;
  const bool built_in = def->kind <= OpKind::kView;
  return built_in || evaluator_of(op);
}

Results evaluate(const ir::Graph& graph, std::span<const int64_t> symbols, std::vector<Array> inputs) {
  return Evaluation(graph, symbols).run(std::move(inputs));
}

}  // namespace graphex::ops::reference
