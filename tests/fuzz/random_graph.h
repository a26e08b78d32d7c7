// Random graphs of what storage and fusion can get wrong: elementwise chains, broadcasts, reductions, views of every
// kind, cat, region_write, and writes to inputs that are read, viewed, returned and swapped. Equal seeds give equal
// graphs.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "graphex/ir/graph.h"

namespace graphex::test {

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed), real_(seed % 2 == 1) {}

  std::unique_ptr<ir::Graph> make() {
    graph_->symbols = {"s0", "s1"};
    add_inputs();
    for (int left = 3 + pick(18); left > 0; --left) add_something();
    finish();
    return std::move(graph_);
  }

 private:
  using Shape = std::vector<ir::Expr>;

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(pick(static_cast<int>(list.size())))];
  }
  DType main_type() const { return real_ ? DType::kF32 : DType::kI32; }

  ir::Expr any_size() {
    const std::vector<ir::Expr> sizes = {ir::Expr::symbol(0), ir::Expr::symbol(1), 4, 3, 1, ir::Expr::symbol(0)};
    return one_of(sizes);
  }

  // Row-major, or sometimes with its dimensions in another order in memory.
  ir::Type type_of(DType dtype, const Shape& shape) {
    ir::Type type(dtype, shape);
    if (shape.size() < 2 || !chance(15)) return type;
    std::vector<size_t> order;
    for (size_t d = 0; d < shape.size(); ++d) order.push_back(d);
    std::shuffle(order.begin(), order.end(), random_);
    ir::Expr step(1);
    for (const size_t d : order) {
      type.strides[d] = step;
      step = step * shape[d];
    }
    return type;
  }

  void add_inputs() {
    graph_->add_input("x0", type_of(main_type(), {ir::Expr::symbol(0), ir::Expr::symbol(1)}));
    graph_->add_input("x1", ir::Type(main_type(), graph_->inputs[0]->type.shape));
    for (int i = 2; i < 4 + pick(2); ++i) {
      Shape shape;
      for (int rank = pick(4); rank > 0; --rank) shape.push_back(any_size());
      if (shape.size() == 2 && chance(50)) shape[1] = shape[0];  // square, so that it goes with its own transpose
      graph_->add_input("x" + std::to_string(i), type_of(main_type(), shape));
    }
    for (auto& input : graph_->inputs) pool_.push_back(input.get());
  }

  ir::Value* emit(const std::string& op, std::vector<ir::Value*> inputs, ir::Type type,
                  std::map<std::string, ir::Attr> attrs = {}) {
    return graph_->add_node(op, std::move(inputs), {std::move(type)}, std::move(attrs))->out();
  }
  ir::Value* full(const Shape& shape, int value) {
    return emit("full", {}, ir::Type(main_type(), shape),
                {{"value", real_ ? ir::Attr(value * 0.5) : ir::Attr(ir::Expr(value))}});
  }
  // Floats that could have grown are brought back to [-1, 1], so that errors of rounding stay small.
  void add(ir::Value* value) {
    static const std::vector<std::string> kGrow = {"add", "sub", "mul", "sum"};
    if (real_ && std::count(kGrow.begin(), kGrow.end(), value->node->op) > 0 && chance(90))
      value = emit("tanh", {value}, type_of(DType::kF32, value->type.shape));
    pool_.push_back(value);
  }

  void add_something() {
    const int kind = pick(100);
    if (kind < 12) return unary();
    if (kind < 42) return binary();
    if (kind < 56) return reduction();
    if (kind < 76) return view();
    if (kind < 81) return copy();
    if (kind < 87) return cat();
    if (kind < 97) return region_write();
    source();
  }

  ir::Value* operand() {
    return chance(50)
               ? pool_[pool_.size() - 1 - static_cast<size_t>(pick(std::min<int>(4, static_cast<int>(pool_.size()))))]
               : one_of(pool_);
  }

  void unary() {
    ir::Value* x = operand();
    static const std::vector<std::string> kReal = {"tanh", "neg", "abs", "relu", "sigmoid", "sin"},
                                          kWhole = {"neg", "abs", "relu", "bitwise_not"};
    add(emit(one_of(real_ ? kReal : kWhole), {x}, type_of(main_type(), x->type.shape)));
  }

  static bool broadcasts(const Shape& a, const Shape& b, Shape& shape) {
    shape.assign(std::max(a.size(), b.size()), ir::Expr(1));
    for (const Shape* side : {&a, &b})
      for (size_t d = 0; d < side->size(); ++d) {
        ir::Expr& size = shape[shape.size() - side->size() + d];
        if (size.is(1))
          size = (*side)[d];
        else if (!(*side)[d].is(1) && !((*side)[d] == size))
          return false;
      }
    return true;
  }

  // A value that goes with x, perhaps made for it.
  ir::Value* partner(ir::Value* x, Shape& shape) {
    for (int tries = 0; tries < 12; ++tries) {
      ir::Value* y = operand();
      if (broadcasts(x->type.shape, y->type.shape, shape)) return y;
    }
    shape = x->type.shape;
    return chance(50) ? full({}, 1 + pick(3)) : full(x->type.shape, 1 + pick(3));
  }

  void binary() {
    ir::Value* x = operand();
    Shape shape;
    ir::Value* y = partner(x, shape);
    if (chance(30)) std::swap(x, y);
    static const std::vector<std::string> kReal = {"add", "sub", "mul", "maximum", "minimum"},
                                          kWhole = {"add", "sub", "mul", "maximum", "minimum", "bitwise_xor", "where"};
    const std::string op = one_of(real_ ? kReal : kWhole);
    if (op != "where") return add(emit(op, {x, y}, type_of(main_type(), shape)));
    ir::Value* less = emit("lt", {x, y}, ir::Type(DType::kBool, shape));
    add(emit("where", {less, x, y}, type_of(main_type(), shape)));
  }

  void reduction() {
    ir::Value* x = operand();
    if (x->type.rank() == 0 && chance(80)) return;
    const bool keepdim = chance(40);
    std::vector<ir::Expr> dims;
    Shape shape;
    bool fixed = true;  // no reduced dimension can be empty
    for (int d = 0; d < x->type.rank(); ++d) {
      if (chance(50) || (d + 1 == x->type.rank() && dims.empty())) {
        dims.emplace_back(d);
        fixed = fixed && x->type.shape[static_cast<size_t>(d)].is_constant();
        if (keepdim) shape.emplace_back(1);
      } else {
        shape.push_back(x->type.shape[static_cast<size_t>(d)]);
      }
    }
    static const std::vector<std::string> kAny = {"sum", "amax", "amin"};
    const std::string op = fixed ? one_of(kAny) : "sum";
    add(emit(op, {x}, type_of(main_type(), shape), {{"dims", dims}, {"keepdim", keepdim}}));
  }

  static ir::Expr offset_of(const ir::Value* x) {
    return x->node && x->node->op == "view" ? x->node->expr("offset") : ir::Expr(0);
  }

  void view() {
    ir::Value* x = operand();
    ir::Type type = x->type;
    ir::Expr offset = offset_of(x);
    const auto rank = static_cast<size_t>(type.rank());
    const int kind = pick(6);
    if (kind == 0 && rank >= 2) {  // transpose
      const auto a = static_cast<size_t>(pick(type.rank())), b = static_cast<size_t>(pick(type.rank()));
      std::swap(type.shape[a], type.shape[b]);
      std::swap(type.strides[a], type.strides[b]);
    } else if (kind == 1 && rank < 3) {  // unsqueeze, perhaps expanded
      const auto at = static_cast<int64_t>(pick(type.rank() + 1));
      const bool expand = chance(50);
      type.shape.insert(type.shape.begin() + at, expand ? any_size() : ir::Expr(1));
      type.strides.insert(type.strides.begin() + at, expand ? 0 : 1);
    } else if (kind == 2 && rank >= 1) {  // narrow or select a constant dimension
      const auto d = static_cast<size_t>(pick(type.rank()));
      if (!type.shape[d].is_constant() || type.shape[d].constant() < 2) return;
      const auto from = pick(2);
      offset = offset + ir::Expr(from) * type.strides[d];
      if (chance(50)) {
        type.shape.erase(type.shape.begin() + static_cast<int64_t>(d));
        type.strides.erase(type.strides.begin() + static_cast<int64_t>(d));
      } else {
        type.shape[d] = ir::Expr(type.shape[d].constant() - from - pick(2 - from));
      }
    } else if (kind == 3 && rank >= 2 && type.is_contiguous()) {  // flatten
      type = ir::Type(type.dtype, {type.numel()});
    } else if (kind == 4 && rank == 1) {  // diagonal-like: one row for many
      type.shape.insert(type.shape.begin(), any_size());
      type.strides.insert(type.strides.begin(), 0);
    } else if (kind == 5 && rank == 2 && type.shape[0] == type.shape[1]) {  // diagonal
      type = ir::Type(type.dtype, {type.shape[0]}, {type.strides[0] + type.strides[1]});
    } else {
      return;
    }
    pool_.push_back(emit("view", {x}, std::move(type), {{"offset", offset}}));
  }

  void copy() {
    ir::Value* x = operand();
    add(emit("copy", {x}, type_of(main_type(), x->type.shape)));
  }

  void cat() {
    ir::Value* x = operand();
    if (x->type.rank() == 0) return;
    const auto dim = static_cast<size_t>(pick(x->type.rank()));
    std::vector<ir::Value*> parts = {x};
    Shape shape = x->type.shape;
    for (int tries = 0; tries < 10 && parts.size() < 3; ++tries) {
      ir::Value* y = tries == 9 ? x : operand();
      Shape other = y->type.shape;
      if (other.size() != shape.size()) continue;
      other[dim] = x->type.shape[dim];
      if (!(other == x->type.shape)) continue;
      shape[dim] = shape[dim] + y->type.shape[dim];
      parts.push_back(y);
    }
    add(emit("cat", parts, ir::Type(main_type(), shape), {{"dim", ir::Expr(static_cast<int64_t>(dim))}}));
  }

  // Replaces one index along a dimension of size 3 or 4, or the whole. The region lies in the result's layout, which
  // the operand may not have.
  void region_write() {
    ir::Value* x = operand();
    const ir::Type type = type_of(main_type(), x->type.shape);
    ir::Type region = type;
    ir::Expr offset(0);
    for (size_t d = 0; d < region.shape.size(); ++d)
      if (region.shape[d].is_constant() && region.shape[d].constant() > 2) {
        offset = region.strides[d] * ir::Expr(1 + pick(2));
        region.shape.erase(region.shape.begin() + static_cast<int64_t>(d));
        region.strides.erase(region.strides.begin() + static_cast<int64_t>(d));
        break;
      }
    ir::Value* source = nullptr;
    for (int tries = 0; tries < 20 && !source; ++tries)
      if (ir::Value* y = operand(); y->type.shape == region.shape) source = y;
    if (!source) source = full(region.shape, 3);
    overwritten_.push_back(x);
    ir::Value* made = emit("region_write", {x, source}, type, {{"offset", offset}, {"strides", region.strides}});
    overwritten_.push_back(made);
    pool_.push_back(made);
    // Its only reader, so that it needs no memory that outlives the graph.
    if (chance(30)) pool_.push_back(emit("abs", {made}, type_of(main_type(), type.shape)));
  }

  void source() {
    if (real_ || chance(50)) return add(full({any_size(), any_size()}, pick(5)));
    add(emit("iota", {}, ir::Type(DType::kI32, {any_size()}),
             {{"start", ir::Expr(pick(3))}, {"step", ir::Expr(1 + pick(2))}}));
  }

  void finish() {
    for (const auto& input : graph_->inputs) {
      if (!chance(60)) continue;
      std::vector<ir::Value*> fitting;
      for (ir::Value* value : pool_)
        if (value->type.shape == input->type.shape) fitting.push_back(value);
      // Late values, mostly.
      ir::Value* value = chance(60) ? fitting.back() : one_of(fitting);
      if (!overwritten_.empty() && chance(50))
        if (ir::Value* old = one_of(overwritten_); old->type.shape == input->type.shape) value = old;
      if (value == input.get() && chance(80)) value = emit("neg", {value}, type_of(main_type(), value->type.shape));
      graph_->writes.push_back({input.get(), value});
      if (chance(20)) graph_->outputs.push_back(value);
    }
    for (int left = 1 + pick(3); left > 0; --left) graph_->outputs.push_back(chance(50) ? pool_.back() : one_of(pool_));
    if (!overwritten_.empty() && chance(20)) graph_->outputs.push_back(one_of(overwritten_));
    graph_->renumber();
  }

  std::mt19937 random_;
  bool real_;
  std::unique_ptr<ir::Graph> graph_ = std::make_unique<ir::Graph>();
  std::vector<ir::Value*> pool_, overwritten_;
};

}  // namespace graphex::test
