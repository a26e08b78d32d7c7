// Graph, Node, Value, Type: the data that passes read and rewrite. Meaning and text form: README.md in this folder.
//
// A Graph owns its nodes and values; pointers to them are stable until `sweep`. Rewrites make new nodes with `insert`,
// redirect uses with `replace_uses` and leave dead nodes to `sweep`.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graphex/base/dtype.h"
#include "graphex/ir/expr.h"

namespace graphex::ir {

struct Type {
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
  std::vector<Expr> strides;

  Type() = default;
  Type(DType dtype, std::vector<Expr> shape);  // contiguous
  Type(DType dtype, std::vector<Expr> shape, std::vector<Expr> strides);
  int rank() const { return static_cast<int>(shape.size()); }
  bool is_contiguous() const;
  Expr numel() const { return product(shape); }
  friend bool operator==(const Type&, const Type&) = default;
};

using Attr = std::variant<Expr, double, bool, std::string, std::vector<Expr>>;

struct Node;

struct Value {
  std::string name;
  Type type;
  Node* node = nullptr;  // the maker; null for an input
  int index = 0;         // which result of the node, or which input
};

struct Node {
  std::string op;
  std::vector<Value*> inputs;
  std::vector<std::unique_ptr<Value>> outputs;
  std::map<std::string, Attr> attrs;
  int order = 0;  // position in the graph, kept by Graph::renumber

  Value* out(int i = 0) const { return outputs[i].get(); }
  bool has(const std::string& name) const { return attrs.count(name) != 0; }
  // Attribute access; an absent or differently typed attribute is an Error that names the node.
  const Expr& expr(const std::string& name) const;
  int64_t integer(const std::string& name) const;  // a constant expression
  double number(const std::string& name) const;    // a float, or a constant expression
  bool flag(const std::string& name) const;        // false when absent
  const std::string& text(const std::string& name) const;
  const std::vector<Expr>& exprs(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name) const;
};

struct Write {
  Value* input;
  Value* value;
};

class Graph {
 public:
  std::string name = "graph";
  std::vector<std::string> symbols;
  std::vector<std::unique_ptr<Value>> inputs;
  std::list<std::unique_ptr<Node>> nodes;
  std::vector<Write> writes;
  std::vector<Value*> outputs;

  Value* add_input(std::string name, Type type);
  // Appends a node, or inserts it before `before`.
  Node* add_node(std::string op, std::vector<Value*> inputs, std::vector<Type> types,
                 std::map<std::string, Attr> attrs = {}, Node* before = nullptr);
  void replace_uses(Value* old_value, Value* new_value);
  // Removes nodes that nothing needs; islands with the attribute `effect` are needed.
  void sweep();
  void renumber();
  std::string fresh_name();
  // Keeps fresh names apart from a name that came from text.
  void reserve_name(const std::string& name);

 private:
  int next_name_ = 0;
};

// Text form. parse throws Error(kInvalidArgument) with line and column; print(parse(text)) is canonical.
std::string print(const Graph& graph);
std::string print(const Node& node, const Graph& graph);
std::string print(const Type& type, const Graph& graph);
std::unique_ptr<Graph> parse(std::string_view text);

}  // namespace graphex::ir
