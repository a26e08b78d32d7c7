// The lowering's account of a graph's arguments and results (python/graphex/signature.md), as data.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "graphex/ir/expr.h"

namespace graphex::python {

namespace nb = nanobind;

struct ArgSpec {
  enum Kind { kTensor, kSymbol, kNone } kind;
  int index = 0;  // input or symbol
};

struct SymbolSpec {
  enum Kind { kArg, kSize, kStride } kind;
  int arg = 0, dim = 0;
};

struct OutputSpec {
  enum Kind { kValue, kArg, kInt, kConst } kind;
  int index = 0;
  ir::Expr expr;
  nb::object object;
};

struct Signature {
  std::vector<ArgSpec> args;
  std::vector<SymbolSpec> symbols;
  std::vector<std::pair<int, nb::object>> constants;
  std::vector<OutputSpec> outputs;
  std::vector<int> arg_of_input;  // -1: a constant
  nb::object eager;               // boxed callable that does the same by PyTorch, or None
};

// Throws ValueError naming the entry that doesn't fit the graph.
Signature read_signature(nb::dict dict, const std::vector<std::string>& symbol_names, int inputs, int values);

}  // namespace graphex::python
