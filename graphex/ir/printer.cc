#include <charconv>
#include <cmath>

#include "graphex/ir/graph.h"

namespace graphex::ir {
namespace {

std::string join(std::span<const Expr> exprs, const Graph& graph) {
  std::string text;
  for (const Expr& expr : exprs) text += (text.empty() ? "" : ", ") + expr.str(graph.symbols);
  return text;
}

// Shortest text that reads back to the same double and is not taken for an integer.
std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

std::string attr_text(const Attr& attr, const Graph& graph) {
  if (const auto* expr = std::get_if<Expr>(&attr)) return expr->str(graph.symbols);
  if (const auto* number = std::get_if<double>(&attr)) return number_text(*number);
  if (const auto* flag = std::get_if<bool>(&attr)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&attr)) return quoted(*text);
  return "[" + join(std::get<std::vector<Expr>>(attr), graph) + "]";
}

std::string names(const std::vector<Value*>& values) {
  std::string text;
  for (const Value* value : values) text += (text.empty() ? "%" : ", %") + value->name;
  return text;
}

}  // namespace

std::string print(const Type& type, const Graph& graph) {
  std::string text = std::string(name_of(type.dtype)) + "[" + join(type.shape, graph) + "]";
  if (!type.is_contiguous()) text += " strides [" + join(type.strides, graph) + "]";
  return text;
}

std::string print(const Node& node, const Graph& graph) {
  std::string text;
  for (const auto& output : node.outputs)
    text += (text.empty() ? "%" : ", %") + output->name + ": " + print(output->type, graph);
  text += (text.empty() ? "" : " = ") + node.op + "(" + names(node.inputs) + ")";
  if (node.attrs.empty()) return text;
  text += " {";
  bool first = true;
  for (const auto& [name, attr] : node.attrs) {
    text += (first ? "" : ", ") + name + "=" + attr_text(attr, graph);
    first = false;
  }
  return text + "}";
}

std::string print(const Graph& graph) {
  std::string text = "graph @" + graph.name + " {\n";
  for (size_t i = 0; i < graph.symbols.size(); ++i) text += (i ? ", " : "  sym ") + graph.symbols[i];
  if (!graph.symbols.empty()) text += "\n";
  for (const auto& input : graph.inputs) text += "  %" + input->name + ": " + print(input->type, graph) + " = input\n";
  for (const auto& node : graph.nodes) text += "  " + print(*node, graph) + "\n";
  for (const Write& write : graph.writes) text += "  write %" + write.input->name + " <- %" + write.value->name + "\n";
  return text + "  return" + (graph.outputs.empty() ? "" : " ") + names(graph.outputs) + "\n}\n";
}

}  // namespace graphex::ir
