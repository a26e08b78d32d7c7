// Reductions and linear algebra. Sums accumulate in double or 64-bit integers.
#include <algorithm>
#include <cmath>

#include "graphex/base/block_values.h"
#include "graphex/ops/checks.h"
#include "graphex/ops/reference.h"

namespace graphex::ops::reference {
namespace {

bool truth(DType dtype, const Number& n) { return is_float(dtype) ? n.f != 0 : n.i != 0; }

// Whether `a` is preferred to `b`: the larger (or smaller) one; NaN over all.
bool better(bool largest, DType dtype, const Number& a, const Number& b) {
  if (!is_float(dtype)) return largest ? a.i > b.i : a.i < b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && !std::isnan(b.f);
  return largest ? a.f > b.f : a.f < b.f;
}

Number start_of(const std::string& op, DType dtype) {
  if (op == "prod" || op == "all") return {1, 1};
  if (op == "amax") return {-INFINITY, dtype == DType::kI64 ? INT64_MIN : is_int(dtype) ? -(int64_t{1} << 31) : 0};
  if (op == "amin") return {INFINITY, dtype == DType::kBool ? 1 : INT64_MAX};
  return {};
}

void accumulate(const std::string& op, DType from, DType to, Number n, Number& total) {
  if (op == "any")
    total.i |= truth(from, n);
  else if (op == "all")
    total.i &= truth(from, n);
  else if (op == "amax" || op == "amin")
    total = better(op == "amax", to, n, total) ? n : total;
  else if (op == "sum")
    total = {total.f + n.f, static_cast<int64_t>(static_cast<uint64_t>(total.i) + static_cast<uint64_t>(n.i))};
  else
    total = {total.f * n.f, static_cast<int64_t>(static_cast<uint64_t>(total.i) * static_cast<uint64_t>(n.i))};
}

void reduce(const Call& call) {
  const Array &x = *call.in[0], &out = *call.out[0];
  const std::vector<int> dims = reduced_dims(call.node);
  const DType compute = compute_type(out.dtype);
  const bool logical = call.node.op == "any" || call.node.op == "all";
  for (Number& each : call.out[0]->data) each = start_of(call.node.op, compute);
  for (Index i(x.shape); i.valid(); i.next()) {
    std::vector<int64_t> at;
    for (size_t d = 0; d < x.shape.size(); ++d) {
      const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int>(d)) != dims.end();
      if (!reduced) at.push_back(i[d]);
      if (reduced && call.node.flag("keepdim")) at.push_back(0);
    }
    const Number& n = element(x, i.at());
    accumulate(call.node.op, x.dtype, compute, logical ? n : convert(x.dtype, compute, n),
               call.out[0]->data[position(out, at)]);
  }
  if (logical && is_float(out.dtype))
    for (Number& each : call.out[0]->data) each.f = static_cast<double>(each.i);
}

void arg_reduce(const Call& call) {
  const Array& x = *call.in[0];
  const bool largest = call.node.op == "argmax", flat = call.node.flag("flat");
  const auto dim = flat ? 0 : static_cast<size_t>(call.node.integer("dim"));
  Array best{x.dtype, call.out[0]->shape, std::vector<Number>(call.out[0]->data.size())};
  std::vector<bool> seen(best.data.size(), false);
  int64_t count = 0;
  for (Index i(x.shape); i.valid(); i.next(), ++count) {
    std::vector<int64_t> at = flat ? std::vector<int64_t>(call.out[0]->shape.size(), 0) : i.at();
    if (!flat && call.node.flag("keepdim")) at[dim] = 0;
    if (!flat && !call.node.flag("keepdim")) at.erase(at.begin() + static_cast<int64_t>(dim));
    const size_t to = position(best, at);
    const Number& n = element(x, i.at());
    if (seen[to] && !better(largest, x.dtype, n, best.data[to])) continue;
    seen[to] = true;
    best.data[to] = n;
    call.out[0]->data[to].i = flat ? count : i[dim];
  }
}

void cumsum(const Call& call) {
  const Array& x = *call.in[0];
  Array& out = *call.out[0];
  const auto dim = static_cast<size_t>(call.node.integer("dim"));
  Array total{out.dtype, out.shape, std::vector<Number>(out.data.size())};  // not rounded
  size_t k = 0;
  for (Index i(x.shape); i.valid(); i.next(), ++k) {
    total.data[k] = convert(x.dtype, compute_type(out.dtype), x.data[k]);
    if (i[dim] > 0) {
      std::vector<int64_t> before = i.at();
      --before[dim];
      accumulate("sum", out.dtype, out.dtype, element(total, before), total.data[k]);
    }
    out.data[k] = total.data[k];
  }
}

double number_or(const ir::Node& node, const char* name, double otherwise) {
  return node.has(name) ? node.number(name) : otherwise;
}

void matmul(const Call& call) {
  const bool with_addend = call.node.op == "addmm";
  const Array &a = *call.in[with_addend], &b = *call.in[with_addend + 1];
  const double alpha = with_addend ? number_or(call.node, "alpha", 1) : 1,
               beta = with_addend ? number_or(call.node, "beta", 1) : 0;
  const int64_t inner = a.shape.back();
  size_t k = 0;
  for (Index i(call.out[0]->shape); i.valid(); i.next(), ++k) {
    std::vector<int64_t> at_a = i.at(), at_b = i.at();
    double sum = 0;
    for (int64_t j = 0; j < inner; ++j) {
      at_a.back() = j;
      at_b[at_b.size() - 2] = j;
      sum += element(a, at_a).f * element(b, at_b).f;
    }
    sum *= alpha;
    if (beta != 0) sum += beta * element(*call.in[0], i.at()).f;
    call.out[0]->data[k] = {sum, 0};
  }
}

int64_t weight_at(const Array& w, int64_t n, int64_t k) {
  if (w.dtype == DType::kI8) return element(w, std::vector{n, k}).i;
  const int64_t pair = element(w, std::vector{n, k / 32 * 16 + k % 16}).i;
  return (k % 32 < 16 ? pair & 15 : pair >> 4) - 8;
}

struct Rounding {
  float inverse, step;
};

// Of values whose largest magnitude is `most`, to 8 bits.
Rounding rounding_of(float most) { return {std::isfinite(127.0f / most) ? 127.0f / most : 0.0f, most / 127.0f}; }

// The steps in f32 of a row's rounding are part of the meaning; a row with an infinity or a NaN becomes NaN.
std::vector<double> rounded_row(const Array& x, int64_t m, float& scale) {
  float most = 0, spoilt = 0;
  const int64_t length = x.shape[1];
  for (int64_t k = 0; k < length; ++k) {
    const auto value = static_cast<float>(element(x, std::vector{m, k}).f);
    most = std::max(most, std::abs(value));
    spoilt += value * 0.0f;
  }
  const Rounding rounding = rounding_of(most + spoilt);
  scale = rounding.step;
  std::vector<double> row;
  for (int64_t k = 0; k < length; ++k)
    row.push_back(std::nearbyint(static_cast<float>(element(x, std::vector{m, k}).f) * rounding.inverse));
  return row;
}

void quantized_linear(const Call& call) {
  const Array &x = *call.in[0], &w = *call.in[1], &s = *call.in[2];
  const int64_t length = x.shape[1], group = length / s.shape[1];
  for (int64_t m = 0; m < x.shape[0]; ++m) {
    float scale = 1;
    std::vector<double> row;
    if (call.node.flag("round_input")) row = rounded_row(x, m, scale);
    for (int64_t n = 0; n < s.shape[0]; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < length; ++k) {
        const double input = row.empty() ? element(x, std::vector{m, k}).f : row[static_cast<size_t>(k)];
        sum += input * static_cast<double>(weight_at(w, n, k)) * element(s, std::vector{n, k / group}).f;
      }
      sum *= static_cast<double>(scale);
      if (call.in.size() > 3) sum += element(*call.in[3], std::vector{n}).f;
      call.out[0]->data[position(*call.out[0], std::vector{m, n})] = {sum, 0};
    }
  }
}

// Rows round group by group, as the kernel's contract says.
std::vector<double> rounded_groups(const Array& x, int64_t m) {
  std::vector<double> row;
  for (int64_t k = 0; k < x.shape[1]; k += kBlockGroup) {
    const auto value = [&](int64_t i) { return static_cast<float>(element(x, std::vector{m, k + i}).f); };
    float most = 0, spoilt = 0;
    for (int64_t i = 0; i < kBlockGroup; ++i) {
      most = std::max(most, std::abs(value(i)));
      spoilt += value(i) * 0.0f;
    }
    const Rounding rounding = rounding_of(most + spoilt);
    for (int64_t i = 0; i < kBlockGroup; ++i)
      row.push_back(std::nearbyint(value(i) * rounding.inverse) * static_cast<double>(rounding.step));
  }
  return row;
}

void block_linear(const Call& call) {
  const Array &x = *call.in[0], &w = *call.in[1], &y = *call.out[0];
  const BlockFormat& format = *find_block_format(call.node.text("format"));
  std::vector<uint8_t> tile(static_cast<size_t>(w.shape[1])), block(static_cast<size_t>(format.bytes));
  for (int64_t n = 0; n < y.shape[1]; ++n) {
    for (size_t i = 0; i < tile.size(); ++i)
      tile[i] = static_cast<uint8_t>(element(w, std::vector{n / kTileRows, static_cast<int64_t>(i)}).i);
    std::vector<double> weights;
    for (int64_t k = 0; k < x.shape[1]; ++k) {
      const int64_t at = k % format.elements;
      if (at == 0) from_tile(format, tile.data(), k / format.elements, static_cast<int>(n % kTileRows), block.data());
      weights.push_back(block_value(format, block.data(), static_cast<int>(at)));
    }
    for (int64_t m = 0; m < x.shape[0]; ++m) {
      const std::vector<double> row = rounded_groups(x, m);
      double sum = call.in.size() > 2 ? element(*call.in[2], std::vector{n}).f : 0;
      for (size_t k = 0; k < row.size(); ++k) sum += row[k] * weights[k];
      call.out[0]->data[position(y, std::vector{m, n})] = {sum, 0};
    }
  }
}

// The masked score of query i and key j, -inf where the key takes no part.
double score(const Call& call, int64_t b, int64_t h, int64_t i, int64_t j) {
  const Array &q = *call.in[0], &k = *call.in[1];
  const int64_t kv_head = h / call.node.integer("group");
  double dot = 0;
  for (int64_t d = 0; d < q.shape[3]; ++d)
    dot += element(q, std::vector{b, h, i, d}).f * element(k, std::vector{b, kv_head, j, d}).f;
  dot *= call.node.number("scale");
  if (call.node.flag("causal") && j > i) return -INFINITY;
  if (call.in.size() < 4) return dot;
  const Array& mask = *call.in[3];
  if (call.node.flag("bound")) return j <= element(mask, std::vector{b, i}).i ? dot : -INFINITY;
  const Number& m = element(mask, std::vector{b, h, i, j});
  if (mask.dtype == DType::kBool) return m.i ? dot : -INFINITY;
  return dot + m.f;
}

// A query without keys gives 0 and a log-sum-exp of -inf.
void attention(const Call& call) {
  const Array &q = *call.in[0], &v = *call.in[2];
  const int64_t keys = call.in[1]->shape[2], group = call.node.integer("group");
  for (Index i({q.shape[0], q.shape[1], q.shape[2]}); i.valid(); i.next()) {
    std::vector<double> weights;
    for (int64_t j = 0; j < keys; ++j) weights.push_back(score(call, i[0], i[1], i[2], j));
    const double top = weights.empty() ? -INFINITY : *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& w : weights) sum += w = top == -INFINITY ? 0 : std::exp(w - top);
    call.out[1]->data[position(*call.out[1], i.at())] = {sum == 0 ? -INFINITY : top + std::log(sum), 0};
    for (int64_t d = 0; d < v.shape[3]; ++d) {
      double total = 0;
      for (int64_t j = 0; j < keys; ++j)
        total += weights[static_cast<size_t>(j)] * element(v, std::vector{i[0], i[1] / group, j, d}).f;
      call.out[0]->data[position(*call.out[0], std::vector{i[0], i[1], i[2], d})] = {sum == 0 ? 0 : total / sum, 0};
    }
  }
}

void paged_bounds(const Call& call) {
  const Array &lengths = *call.in[0], &tables = *call.in[1];
  const int64_t block = call.node.integer("block"), blocks = call.size(call.node.expr("blocks"));
  const int64_t window = call.node.integer("window");
  for (int64_t s = 0; s < lengths.shape[0]; ++s) {
    const int64_t length = lengths.data[static_cast<size_t>(s)].i;
    bool fits = length >= 0 && length <= tables.shape[1] * block;
    for (int64_t j = window > 0 ? std::max<int64_t>(0, length - window) : 0; fits && j < length; ++j) {
      const int64_t at = element(tables, std::vector{s, j / block}).i;
      fits = at >= 0 && at < blocks;
    }
    if (!fits) fail(ErrorKind::kInvalidArgument, "sequence ", s, ": its length or its block table is out of range");
    call.out[0]->data[static_cast<size_t>(s)] = {0, length - 1};
  }
}

void paged_attention(const Call& call) {
  const Array &q = *call.in[0], &k = *call.in[1], &v = *call.in[2], &tables = *call.in[3], &bounds = *call.in[4];
  const int64_t block = k.shape[1], window = call.node.integer("window"), group = call.node.integer("group");
  const auto at = [&](const Array& cache, int64_t s, int64_t j, int64_t h, int64_t d) {
    return element(cache, std::vector{element(tables, std::vector{s, j / block}).i, j % block, h / group, d}).f;
  };
  for (Index i({q.shape[0], q.shape[1]}); i.valid(); i.next()) {
    const int64_t last = bounds.data[static_cast<size_t>(i[0])].i;
    const int64_t first = window > 0 ? std::max<int64_t>(0, last + 1 - window) : 0;
    std::vector<double> weights;
    for (int64_t j = first; j <= last; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < q.shape[2]; ++d)
        dot += element(q, std::vector{i[0], i[1], d}).f * at(k, i[0], j, i[1], d);
      weights.push_back(dot * call.node.number("scale"));
    }
    const double top = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& w : weights) sum += w = std::exp(w - top);
    for (int64_t d = 0; d < v.shape[3]; ++d) {
      double total = 0;
      for (int64_t j = first; j <= last; ++j)
        total += weights[static_cast<size_t>(j - first)] / sum * at(v, i[0], j, i[1], d);
      call.out[0]->data[position(*call.out[0], std::vector{i[0], i[1], d})] = {total, 0};
    }
  }
}

}  // namespace

const Evaluators& compute_evaluators() {
  static const Evaluators kTable = {
      {"addmm", matmul},
      {"all", reduce},
      {"amax", reduce},
      {"amin", reduce},
      {"any", reduce},
      {"argmax", arg_reduce},
      {"argmin", arg_reduce},
      {"attention", attention},
      {"block_linear", block_linear},
      {"cumsum", cumsum},
      {"matmul", matmul},
      {"paged_attention", paged_attention},
      {"paged_bounds", paged_bounds},
      {"prod", reduce},
      {"sum", reduce},
      {"quantized_linear", quantized_linear},
  };
  return kTable;
}

}  // namespace graphex::ops::reference
