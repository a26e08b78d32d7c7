#include "signature.h"

#include "graphex/base/error.h"
#include "graphex/ir/graph.h"

namespace graphex::python {
namespace {

std::string kind_of(nb::handle entry) { return nb::cast<std::string>(nb::str(entry[0])); }
int number(nb::handle entry, int i) { return nb::cast<int>(entry[i]); }

int in_range(int value, size_t count, const char* what) {
  GX_CHECK(value >= 0 && value < static_cast<int>(count), "signature: ", what, " ", value,
           " is out of range; there are ", count);
  return value;
}

// A size expression in the text form, read by the graph's own parser.
ir::Expr parse_expr(const std::string& text, const std::vector<std::string>& symbols) {
  std::string graph = "graph @expr {\n";
  for (size_t i = 0; i < symbols.size(); ++i) graph += (i ? ", " : "sym ") + symbols[i];
  graph += "\n%x: i64[] = full() {value=" + text + "}\nreturn %x\n}";
  return ir::parse(graph)->nodes.front()->expr("value");
}

ArgSpec read_arg(nb::handle entry, size_t inputs, size_t symbols) {
  const std::string kind = kind_of(entry);
  if (kind == "none") return {ArgSpec::kNone};
  if (kind == "tensor") return {ArgSpec::kTensor, in_range(number(entry, 1), inputs, "input")};
  GX_CHECK(kind == "sym", "signature: argument of kind '", kind, "'; expected tensor, sym or none");
  return {ArgSpec::kSymbol, in_range(number(entry, 1), symbols, "symbol")};
}

SymbolSpec read_symbol(nb::handle entry, size_t args) {
  const std::string kind = kind_of(entry);
  const int arg = in_range(number(entry, 1), args, "argument");
  if (kind == "arg") return {SymbolSpec::kArg, arg, 0};
  GX_CHECK(kind == "size" || kind == "stride", "signature: symbol from '", kind, "'; expected arg, size or stride");
  return {kind == "size" ? SymbolSpec::kSize : SymbolSpec::kStride, arg, number(entry, 2)};
}

OutputSpec read_output(nb::handle entry, size_t args, size_t values, const std::vector<std::string>& symbols) {
  const std::string kind = kind_of(entry);
  if (kind == "none") return {OutputSpec::kConst, 0, 0, nb::none()};
  if (kind == "const") return {OutputSpec::kConst, 0, 0, nb::object(entry[1])};
  if (kind == "value") return {OutputSpec::kValue, in_range(number(entry, 1), values, "value"), 0, {}};
  if (kind == "arg") return {OutputSpec::kArg, in_range(number(entry, 1), args, "argument"), 0, {}};
  GX_CHECK(kind == "int", "signature: output of kind '", kind, "'; expected value, arg, int, const or none");
  return {OutputSpec::kInt, 0, parse_expr(nb::cast<std::string>(entry[1]), symbols), {}};
}

}  // namespace

Signature read_signature(nb::dict dict, const std::vector<std::string>& symbol_names, int inputs, int values) {
  Signature out;
  const nb::list args = nb::cast<nb::list>(dict["args"]);
  out.arg_of_input.assign(inputs, -2);
  for (nb::handle entry : args) {
    out.args.push_back(read_arg(entry, inputs, symbol_names.size()));
    if (out.args.back().kind == ArgSpec::kTensor)
      out.arg_of_input[out.args.back().index] = static_cast<int>(out.args.size()) - 1;
  }
  for (nb::handle entry : nb::cast<nb::list>(dict["symbols"]))
    out.symbols.push_back(read_symbol(entry, out.args.size()));
  GX_CHECK(out.symbols.size() == symbol_names.size(), "signature: ", out.symbols.size(), " symbols; the graph has ",
           symbol_names.size());
  for (nb::handle entry : nb::cast<nb::list>(dict["constants"])) {
    const int input = in_range(number(entry, 0), inputs, "input");
    out.arg_of_input[input] = -1;
    out.constants.emplace_back(input, nb::object(entry[1]));
  }
  for (int i = 0; i < inputs; ++i)
    GX_CHECK(out.arg_of_input[i] != -2, "signature: input ", i, " of the graph comes from nowhere");
  for (nb::handle entry : nb::cast<nb::list>(dict["outputs"]))
    out.outputs.push_back(read_output(entry, out.args.size(), values, symbol_names));
  out.eager = dict.contains("eager") ? nb::object(dict["eager"]) : nb::none();
  return out;
}

}  // namespace graphex::python
