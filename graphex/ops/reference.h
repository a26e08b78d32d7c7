// The plain meaning of every operator but islands: one element at a time, straight from README.md, slow, and without
// any idea of fusion, storage or vectors. What the compiler makes is compared with it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "graphex/ir/graph.h"

namespace graphex::ops::reference {

// An element of any dtype: floats in `f`, the rest in `i` (bool as 0 or 1).
struct Number {
  double f = 0;
  int64_t i = 0;
};

// Elements in row-major order, whatever layout the value's type gives them in memory.
struct Array {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<Number> data;
};

int64_t numel(std::span<const int64_t> shape);
// The number nearest to `n` that `dtype` holds; integers wrap.
Number round_to(DType dtype, Number n);
// `n`, of dtype `from`, as Tensor.to converts it.
Number convert(DType from, DType to, Number n);
// One element of an elementwise operator; the arguments are in the compute type, the result isn't rounded yet.
// (`where` takes a bool first.)
Number scalar(std::string_view op, DType compute, std::span<const Number> args);

struct Results {
  std::vector<Array> outputs;
  std::vector<Array> inputs;  // after the graph's writes
};

// Runs a verified graph. An index out of range is an Error(kIndex), an island an Error(kUnsupported).
Results evaluate(const ir::Graph& graph, std::span<const int64_t> symbols, std::vector<Array> inputs);
// Whether `evaluate` knows this operator.
bool has_reference(std::string_view op);

// ---- For the operators' files ----

struct Call {
  const ir::Node& node;
  std::span<const int64_t> symbols;
  std::vector<const Array*> in;
  std::vector<Array*> out;  // of the results' types, all zero

  int64_t size(const ir::Expr& expr) const { return expr.eval(symbols); }
  std::vector<int64_t> sizes(const std::vector<ir::Expr>& exprs) const;
};
using Evaluator = void (*)(const Call&);
using Evaluators = std::map<std::string_view, Evaluator>;
const Evaluators& compute_evaluators();   // reductions and linear algebra
const Evaluators& movement_evaluators();  // cat, regions, indexing
const Evaluators& sorting_evaluators();

// Steps through all indices of a shape in row-major order: for (Index i(shape); i.valid(); i.next()).
class Index {
 public:
  explicit Index(std::vector<int64_t> shape) : shape_(std::move(shape)), at_(shape_.size(), 0), left_(numel(shape_)) {}
  bool valid() const { return left_ > 0; }
  void next();
  int64_t operator[](size_t d) const { return at_[d]; }
  const std::vector<int64_t>& at() const { return at_; }

 private:
  std::vector<int64_t> shape_, at_;
  int64_t left_;
};

// Position of an index in `data`; leading dimensions that the array lacks are dropped and sizes of 1 broadcast.
size_t position(const Array& array, std::span<const int64_t> index);
inline const Number& element(const Array& array, std::span<const int64_t> index) {
  return array.data[position(array, index)];
}

}  // namespace graphex::ops::reference
