// Loops for tests: a builder of specs with their tensors, and a plain interpreter that follows loop_spec.h word by
// word, one point at a time, with no idea of passes, tiles or vectors.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graphex/codegen/compiler.h"
#include "graphex/codegen/loop_check.h"
#include "graphex/codegen/loop_spec.h"

namespace graphex::codegen::testing {

// A value of any dtype: floats in `f`, the rest in `i`.
struct Number {
  double f = 0;
  int64_t i = 0;
};

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
// The nearest of the two neighbours, the even one of equals, by comparing distances.
inline uint16_t float_to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0x7fc0;
  const uint32_t low = bits & 0xffff, up = bits >> 16;
  return static_cast<uint16_t>(low > 0x8000 || (low == 0x8000 && (up & 1)) ? up + 1 : up);
}

inline Number load_number(DType dtype, const void* at) {
  const auto as = [&]<class T>(T) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kBool:
      return {0, as(uint8_t{}) != 0};
    case DType::kU8:
      return {0, as(uint8_t{})};
    case DType::kI8:
      return {0, as(int8_t{})};
    case DType::kI16:
      return {0, as(int16_t{})};
    case DType::kI32:
      return {0, as(int32_t{})};
    case DType::kI64:
      return {0, as(int64_t{})};
    case DType::kF16:
      return {static_cast<double>(as(_Float16{})), 0};
    case DType::kBF16:
      return {bf16_to_float(as(uint16_t{})), 0};
    case DType::kF32:
      return {as(float{}), 0};
    case DType::kF64:
      return {as(double{}), 0};
  }
  return {};
}

inline void store_number(DType dtype, void* at, Number n) {
  const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (dtype) {
    case DType::kBool:
      return put(static_cast<uint8_t>(n.i != 0));
    case DType::kU8:
    case DType::kI8:
      return put(static_cast<int8_t>(n.i));
    case DType::kI16:
      return put(static_cast<int16_t>(n.i));
    case DType::kI32:
      return put(static_cast<int32_t>(n.i));
    case DType::kI64:
      return put(n.i);
    case DType::kF16:
      return put(static_cast<_Float16>(static_cast<float>(n.f)));
    case DType::kBF16:
      return put(float_to_bf16(static_cast<float>(n.f)));
    case DType::kF32:
      return put(static_cast<float>(n.f));
    case DType::kF64:
      return put(n.f);
  }
}

// Rounds to what a register (or, for a cast, the storage) of dtype holds.
inline Number fit(DType dtype, Number n, bool as_stored) {
  if (!is_float(dtype) || as_stored) {
    uint64_t memory = 0;
    store_number(dtype, &memory, n);
    return load_number(dtype, &memory);
  }
  return dtype == DType::kF64 ? n : Number{static_cast<float>(n.f), 0};
}

inline Number convert_number(DType from, DType to, Number n, bool as_stored) {
  if (to == DType::kBool) return {0, is_float(from) ? n.f != 0 : n.i != 0};
  if (is_float(from) && !is_float(to)) return fit(to, {0, static_cast<int64_t>(n.f)}, true);
  if (!is_float(from) && is_float(to)) {
    return fit(to, {to == DType::kF64 ? static_cast<double>(n.i) : static_cast<float>(n.i), 0}, as_stored);
  }
  return fit(to, n, as_stored);
}

struct Tensor {
  std::vector<int64_t> strides;
  std::vector<std::byte> bytes;
  std::byte* memory = nullptr;  // bytes.data(), or another tensor's when in place
};

struct Problem {
  LoopSpec spec;
  std::vector<int64_t> extents;
  std::vector<int64_t> arguments;
  std::vector<Tensor> tensors;  // one per operand

  int add(LoopInstr instr) {
    spec.instrs.push_back(std::move(instr));
    return static_cast<int>(spec.instrs.size()) - 1;
  }
  int add_operand(DType dtype, bool is_output, const std::vector<int>& order, const std::vector<bool>& broadcast,
                  int64_t pad = 0);
  int load(int operand) {
    return add({.op = LoopOp::kLoad, .dtype = spec.operands[operand].dtype, .args = {}, .index = operand});
  }
  void store(int operand, int value) {
    add({.op = LoopOp::kStore, .dtype = spec.operands[operand].dtype, .args = {value}, .index = operand});
  }
  int scalar(const std::string& function, std::vector<int> args) {
    const DType dtype = scalar_is_predicate(function) ? DType::kBool : spec.instrs[args.back()].dtype;
    return add({.op = LoopOp::kScalar, .dtype = dtype, .function = function, .args = std::move(args)});
  }
  int cast(DType to, int value) { return add({.op = LoopOp::kCast, .dtype = to, .args = {value}}); }
  int reduce(const std::string& function, int value, DType result) {
    return add({.op = LoopOp::kReduce, .dtype = result, .function = function, .args = {value}});
  }
  int constant(DType dtype, double value) {
    const int64_t bits = is_float(dtype) ? std::bit_cast<int64_t>(value) : static_cast<int64_t>(value);
    return add({.op = LoopOp::kConstant, .dtype = dtype, .args = {}, .bits = bits});
  }
  // A contiguous input or output of the whole space.
  int input(DType dtype) { return load(add_operand(dtype, false, natural(), none())); }
  void output(DType dtype, int value) { store(add_operand(dtype, true, natural(), none()), value); }
  // A row input or output: broadcast over the reduced dimensions.
  int row_input(DType dtype) { return load(add_operand(dtype, false, natural(), rows())); }
  void row_output(DType dtype, int value) { store(add_operand(dtype, true, natural(), rows()), value); }

  std::vector<int> natural() const {
    std::vector<int> order;
    for (int d = 0; d < spec.rank; ++d) order.push_back(d);
    return order;
  }
  std::vector<bool> none() const { return std::vector<bool>(static_cast<size_t>(spec.rank), false); }
  std::vector<bool> rows() const {
    std::vector<bool> result = none();
    for (int d = spec.rank - spec.reduced; d < spec.rank; ++d) result[static_cast<size_t>(d)] = true;
    return result;
  }

  std::vector<int64_t> sizes() const;
  int64_t offset(int operand, const std::vector<int64_t>& index) const {
    int64_t sum = 0;
    for (size_t d = 0; d < index.size(); ++d) sum += index[d] * tensors[static_cast<size_t>(operand)].strides[d];
    return sum * size_of(spec.operands[static_cast<size_t>(operand)].dtype);
  }
  void fill(std::mt19937& random, int smallest, int largest);
  void run(const Kernel& kernel, std::mt19937& random);
};

// order: the dimensions from the outermost to the innermost in memory.
inline int Problem::add_operand(DType dtype, bool is_output, const std::vector<int>& order,
                                const std::vector<bool>& broadcast, int64_t pad) {
  LoopOperand operand{dtype, is_output, std::vector<StrideKind>(extents.size(), StrideKind::kZero)};
  Tensor tensor{std::vector<int64_t>(extents.size(), 0), {}, nullptr};
  int64_t step = 1;
  bool first = true;
  for (size_t k = order.size(); k-- > 0;) {
    const auto d = static_cast<size_t>(order[k]);
    if (broadcast[d]) continue;
    operand.strides[d] = first && pad == 0 ? StrideKind::kUnit : StrideKind::kArgument;
    step = first && pad != 0 ? 1 + pad : step;
    tensor.strides[d] = step;
    step = step * std::max<int64_t>(extents[d], 1) + pad;
    first = false;
  }
  tensor.bytes.resize(static_cast<size_t>(step * size_of(dtype)) + 64, std::byte{0x5a});
  spec.operands.push_back(operand);
  tensors.push_back(std::move(tensor));
  return static_cast<int>(tensors.size()) - 1;
}

inline std::vector<int64_t> Problem::sizes() const {
  std::vector<int64_t> result = extents;
  for (size_t o = 0; o < tensors.size(); ++o)
    for (size_t d = 0; d < extents.size(); ++d)
      if (spec.operands[o].strides[d] == StrideKind::kArgument) result.push_back(tensors[o].strides[d]);
  result.insert(result.end(), arguments.begin(), arguments.end());
  return result;
}

// Small whole numbers: their sums and products are exact in every order.
inline void Problem::fill(std::mt19937& random, int smallest, int largest) {
  std::uniform_int_distribution<int> pick(smallest, largest);
  for (size_t o = 0; o < tensors.size(); ++o) {
    const LoopOperand& operand = spec.operands[o];
    if (operand.is_output) continue;
    const auto size = static_cast<size_t>(size_of(operand.dtype));
    for (size_t at = 0; at + size <= tensors[o].bytes.size(); at += size) {
      const int value = pick(random);
      const bool natural = operand.dtype == DType::kBool || operand.dtype == DType::kU8;
      store_number(operand.dtype, &tensors[o].bytes[at],
                   {static_cast<double>(value), natural ? std::abs(value) % 2 : value});
    }
  }
}

// Runs all tiles, in pieces and in an order that `random` chooses.
inline void Problem::run(const Kernel& kernel, std::mt19937& random) {
  std::vector<void*> pointers;
  for (Tensor& tensor : tensors) pointers.push_back(tensor.memory ? tensor.memory : tensor.bytes.data());
  const std::vector<int64_t> numbers = sizes();
  const int64_t tiles = kernel.tiles(numbers.data());
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t at = 0; at < tiles;) {
    const int64_t next =
        std::min(tiles, at + std::uniform_int_distribution<int64_t>(1, std::max<int64_t>(1, tiles))(random));
    pieces.emplace_back(at, next);
    at = next;
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  std::vector<std::byte> scratch(GX_SCRATCH_BYTES + 64, std::byte{0x5b});
  void* aligned = scratch.data();
  size_t space = scratch.size();
  GxStatus status{};
  GxWorker worker{std::align(64, GX_SCRATCH_BYTES, aligned, space), &status, 0, 1, 0};
  for (const auto& [begin, end] : pieces) kernel.run(pointers.data(), numbers.data(), begin, end, &worker);
}

using ScalarReference = std::function<Number(DType, const std::vector<Number>&)>;
// Reference functions by name, for numbers already converted to the compute type.
const std::map<std::string, ScalarReference>& scalar_references();

class Interpreter {
 public:
  explicit Interpreter(Problem& problem) : p_(problem) {}

  // What every output should hold afterwards, from the inputs as they are now.
  std::vector<std::vector<std::byte>> run();

 private:
  using Index = std::vector<int64_t>;
  Number value(int at, const Index& index);
  Number compute(int at, const Index& index);
  Number reduce(const LoopInstr& instr, const Index& index);
  void each_point(Index& index, size_t from, const std::function<void()>& body);

  Problem& p_;
  std::map<std::pair<int, Index>, Number> known_;
};

}  // namespace graphex::codegen::testing
