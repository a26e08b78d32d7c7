// Runs a graph both ways, compiled and by the reference evaluator, on the same random inputs, and compares every result
// and every input as the graph leaves it.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "graphex/compile/function.h"
#include "graphex/ops/reference.h"

namespace graphex::test {

using ops::reference::Array;
using ops::reference::Number;

inline void put(DType dtype, void* at, const Number& n) {
  const auto store = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (dtype) {
    case DType::kF32:
      return store(static_cast<float>(n.f));
    case DType::kF64:
      return store(n.f);
    case DType::kF16:
      return store(static_cast<_Float16>(n.f));
    case DType::kBF16:
      return store(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(n.f)) >> 16));
    default:
      std::memcpy(at, &n.i, static_cast<size_t>(size_of(dtype)));  // little-endian
  }
}

inline Number get(DType dtype, const void* at) {
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return {0, load(uint8_t{})};
    case DType::kI8:
      return {0, load(int8_t{})};
    case DType::kI16:
      return {0, load(int16_t{})};
    case DType::kI32:
      return {0, load(int32_t{})};
    case DType::kI64:
      return {0, load(int64_t{})};
    case DType::kF16:
      return {static_cast<double>(load(_Float16{})), 0};
    case DType::kBF16:
      return {std::bit_cast<float>(static_cast<uint32_t>(load(uint16_t{})) << 16), 0};
    case DType::kF32:
      return {load(float{}), 0};
    case DType::kF64:
      return {load(double{}), 0};
  }
  return {};
}

inline int64_t offset_of(const ops::reference::Index& index, const std::vector<int64_t>& strides) {
  int64_t at = 0;
  for (size_t d = 0; d < strides.size(); ++d) at += index[d] * strides[d];
  return at;
}

// An array laid out in memory of its own.
struct Stored {
  std::vector<char> bytes;
  compile::Tensor tensor;

  Stored(const Array& array, const std::vector<int64_t>& strides) {
    int64_t last = 0;
    for (size_t d = 0; d < strides.size(); ++d) last += std::max<int64_t>(array.shape[d] - 1, 0) * strides[d];
    bytes.assign(static_cast<size_t>((last + 1) * size_of(array.dtype)), '\x5a');
    tensor = {array.dtype, array.shape, strides, bytes.data(), nullptr};
    size_t k = 0;
    for (ops::reference::Index i(array.shape); i.valid(); i.next())
      put(array.dtype, bytes.data() + offset_of(i, strides) * size_of(array.dtype), array.data[k++]);
  }
};

inline Array read(const compile::Tensor& tensor) {
  Array array{tensor.dtype, tensor.shape, {}};
  for (ops::reference::Index i(tensor.shape); i.valid(); i.next())
    array.data.push_back(get(
        tensor.dtype, static_cast<const char*>(tensor.data) + offset_of(i, tensor.strides) * size_of(tensor.dtype)));
  return array;
}

// Floats in [-2, 2], small whole numbers, truth values.
inline Array random_array(const ir::Type& type, std::span<const int64_t> symbols, std::mt19937& random) {
  Array array{type.dtype, {}, {}};
  for (const ir::Expr& size : type.shape) array.shape.push_back(size.eval(symbols));
  for (int64_t k = ops::reference::numel(array.shape); k > 0; --k) {
    const auto pick = static_cast<int64_t>(random() % 4097) - 2048;
    const int64_t whole = type.dtype == DType::kBool ? pick & 1
                          : type.dtype == DType::kU8 ? std::abs(pick) % 200
                                                     : pick % 100;
    array.data.push_back(ops::reference::round_to(type.dtype, {static_cast<double>(pick) / 1024, whole}));
  }
  return array;
}

// The first difference, or "".
inline std::string difference(const Array& got, const Array& expected, double tolerance) {
  if (got.shape != expected.shape) return "another shape";
  for (size_t k = 0; k < got.data.size(); ++k) {
    const Number &a = got.data[k], &b = expected.data[k];
    const bool same = is_float(got.dtype) ? a.f == b.f || (std::isnan(a.f) && std::isnan(b.f)) ||
                                                std::fabs(a.f - b.f) <= tolerance * (1 + std::fabs(b.f))
                                          : a.i == b.i;
    if (same) continue;
    const auto text = [&](const Number& n) { return is_float(got.dtype) ? std::to_string(n.f) : std::to_string(n.i); };
    return "element " + std::to_string(k) + " of " + std::to_string(got.data.size()) + " is " + text(a) +
           ", expected " + text(b);
  }
  return "";
}

// One compiler for all, so that equal kernels are compiled once, and three workers.
inline const compile::Context& shared_context() {
  static const compile::Context kContext = {
      std::make_shared<codegen::KernelCompiler>(codegen::CompilerOptions{.use_cache = false}),
      runtime::make_own_team(3), 0};
  return kContext;
}

// One text, compiled once, run for several sizes.
class Both {
 public:
  explicit Both(const std::string& text, const compile::Options& options = {},
                const compile::Context& context = shared_context())
      : graph_(ir::parse(text)), function_(context, text, options) {}

  const compile::Function& function() const { return function_; }

  // "" or what differs.
  std::string run(const std::vector<int64_t>& symbols, double tolerance = 1e-5, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::vector<Array> arrays;
    for (const auto& input : graph_->inputs) arrays.push_back(random_array(input->type, symbols, random));
    return run_on(arrays, symbols, tolerance);
  }

  std::string run_on(const std::vector<Array>& arrays, const std::vector<int64_t>& symbols, double tolerance) {
    const ops::reference::Results expected = ops::reference::evaluate(*graph_, symbols, arrays);
    std::vector<Stored> stored;
    for (size_t i = 0; i < arrays.size(); ++i)
      stored.emplace_back(arrays[i], strides(graph_->inputs[i]->type, symbols));
    std::vector<compile::Tensor> inputs;
    for (const Stored& each : stored) inputs.push_back(each.tensor);
    const std::vector<compile::Tensor> outputs = function_(inputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (const auto text = difference(read(outputs[i]), expected.outputs[i], tolerance); !text.empty())
        return "result " + std::to_string(i) + " (%" + graph_->outputs[i]->name + "): " + text;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (const auto text = difference(read(inputs[i]), expected.inputs[i], tolerance); !text.empty())
        return "input %" + graph_->inputs[i]->name + " afterwards: " + text;
    return "";
  }

 private:
  static std::vector<int64_t> strides(const ir::Type& type, std::span<const int64_t> symbols) {
    std::vector<int64_t> result;
    for (const ir::Expr& stride : type.strides) result.push_back(stride.eval(symbols));
    return result;
  }

  std::unique_ptr<ir::Graph> graph_;
  compile::Function function_;
};

// Runs the text for every list of sizes.
inline void expect_same(const std::string& text, const std::vector<std::vector<int64_t>>& sizes = {{}},
                        double tolerance = 1e-5, const compile::Options& options = {}) {
  Both both(text, options);
  for (const auto& symbols : sizes) {
    std::string at;
    for (const int64_t symbol : symbols) at += " " + std::to_string(symbol);
    EXPECT_EQ(both.run(symbols, tolerance), "") << "sizes:" << at << "\nafter the passes:\n"
                                                << both.function().report().graph;
  }
}

}  // namespace graphex::test
