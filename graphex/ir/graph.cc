#include "graphex/ir/graph.h"

#include <algorithm>
#include <unordered_set>

#include "graphex/base/error.h"

namespace graphex::ir {

Type::Type(DType dtype, std::vector<Expr> shape) : dtype(dtype), shape(std::move(shape)) {
  strides = contiguous_strides(this->shape);
}

Type::Type(DType dtype, std::vector<Expr> shape, std::vector<Expr> strides)
    : dtype(dtype), shape(std::move(shape)), strides(std::move(strides)) {
  GX_CHECK(this->shape.size() == this->strides.size(), "a type with ", this->shape.size(), " sizes has ",
           this->strides.size(), " strides; expected one stride for each size");
}

bool Type::is_contiguous() const { return strides == contiguous_strides(shape); }

namespace {

template <class T>
const T& attr_as(const Node& node, const std::string& name, const char* expected) {
  const auto it = node.attrs.find(name);
  GX_CHECK(it != node.attrs.end(), "node %", node.outputs.empty() ? "?" : node.out()->name, " (", node.op,
           "): attribute '", name, "' is missing; expected ", expected);
  const T* value = std::get_if<T>(&it->second);
  GX_CHECK(value, "node %", node.outputs.empty() ? "?" : node.out()->name, " (", node.op, "): attribute '", name,
           "' has the wrong type; expected ", expected);
  return *value;
}

int64_t constant_of(const Node& node, const std::string& name, const Expr& expr) {
  GX_CHECK(expr.is_constant(), "node %", node.out()->name, " (", node.op, "): attribute '", name,
           "' must be a constant integer, not an expression of symbols");
  return expr.constant();
}

}  // namespace

const Expr& Node::expr(const std::string& name) const { return attr_as<Expr>(*this, name, "an integer expression"); }

int64_t Node::integer(const std::string& name) const { return constant_of(*this, name, expr(name)); }

double Node::number(const std::string& name) const {
  const auto it = attrs.find(name);
  if (it != attrs.end())
    if (const Expr* expr = std::get_if<Expr>(&it->second)) return static_cast<double>(constant_of(*this, name, *expr));
  return attr_as<double>(*this, name, "a number");
}

bool Node::flag(const std::string& name) const { return has(name) && attr_as<bool>(*this, name, "true or false"); }

const std::string& Node::text(const std::string& name) const { return attr_as<std::string>(*this, name, "a string"); }

const std::vector<Expr>& Node::exprs(const std::string& name) const {
  return attr_as<std::vector<Expr>>(*this, name, "a list of integer expressions");
}

std::vector<int64_t> Node::integers(const std::string& name) const {
  std::vector<int64_t> values;
  for (const Expr& expr : exprs(name)) values.push_back(constant_of(*this, name, expr));
  return values;
}

Value* Graph::add_input(std::string name, Type type) {
  auto value =
      std::make_unique<Value>(Value{std::move(name), std::move(type), nullptr, static_cast<int>(inputs.size())});
  inputs.push_back(std::move(value));
  return inputs.back().get();
}

Node* Graph::add_node(std::string op, std::vector<Value*> node_inputs, std::vector<Type> types,
                      std::map<std::string, Attr> attrs, Node* before) {
  auto node = std::make_unique<Node>();
  node->op = std::move(op);
  node->inputs = std::move(node_inputs);
  node->attrs = std::move(attrs);
  for (Type& type : types) {
    const int index = static_cast<int>(node->outputs.size());
    node->outputs.push_back(std::make_unique<Value>(Value{fresh_name(), std::move(type), node.get(), index}));
  }
  Node* raw = node.get();
  auto place = nodes.end();
  if (before) {
    for (place = nodes.begin(); place->get() != before;) ++place;
    raw->order = before->order;
  }
  nodes.insert(place, std::move(node));
  return raw;
}

void Graph::replace_uses(Value* old_value, Value* new_value) {
  for (auto& node : nodes)
    for (Value*& input : node->inputs)
      if (input == old_value) input = new_value;
  for (Write& write : writes)
    if (write.value == old_value) write.value = new_value;
  for (Value*& output : outputs)
    if (output == old_value) output = new_value;
}

void Graph::sweep() {
  std::unordered_set<const Node*> live;
  auto need = [&](const Value* value) {
    if (value->node) live.insert(value->node);
  };
  for (const Value* output : outputs) need(output);
  for (const Write& write : writes) need(write.value);
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    if ((*it)->flag("effect")) live.insert(it->get());
    if (live.count(it->get()))
      for (const Value* input : (*it)->inputs) need(input);
  }
  std::erase_if(nodes, [&](const auto& node) { return !live.count(node.get()); });
}

void Graph::renumber() {
  int order = 0;
  for (auto& node : nodes) node->order = order++;
}

std::string Graph::fresh_name() { return "." + std::to_string(next_name_++); }

void Graph::reserve_name(const std::string& taken) {
  if (taken.size() < 2 || taken.size() > 9 || taken[0] != '.') return;
  if (taken.find_first_not_of("0123456789", 1) != std::string::npos) return;
  next_name_ = std::max(next_name_, std::stoi(taken.substr(1)) + 1);
}

}  // namespace graphex::ir
