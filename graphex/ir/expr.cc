#include "graphex/ir/expr.h"

#include <algorithm>

#include "graphex/base/error.h"

namespace graphex::ir {

struct Expr::Factor {
  Kind kind;
  int symbol = 0;
  std::shared_ptr<const std::pair<Expr, Expr>> args;  // of floordiv, mod, min, max
};

struct Expr::Term {
  int64_t coefficient;
  std::vector<Factor> factors;  // sorted
};

namespace {

int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  GX_CHECK(!__builtin_add_overflow(a, b, &sum), "size expression leaves 64 bits: ", a, " + ", b);
  return sum;
}

int64_t times(int64_t a, int64_t b) {
  int64_t product;
  GX_CHECK(!__builtin_mul_overflow(a, b, &product), "size expression leaves 64 bits: ", a, " * ", b);
  return product;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  GX_CHECK(b != 0, "size expression divides by zero");
  if (b == -1) return times(a, b);
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

int64_t apply(int kind, int64_t a, int64_t b) {
  switch (kind) {
    case 1:
      return floor_quotient(a, b);
    case 2:
      return a - floor_quotient(a, b) * b;
    case 3:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

}  // namespace

int Expr::compare(const Factor& a, const Factor& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.kind == Kind::kSymbol) return a.symbol == b.symbol ? 0 : (a.symbol < b.symbol ? -1 : 1);
  if (a.args == b.args) return 0;
  const int first = compare(a.args->first, b.args->first);
  return first != 0 ? first : compare(a.args->second, b.args->second);
}

int Expr::compare(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (const int order = compare(a[i], b[i])) return order;
  return a.size() == b.size() ? 0 : (a.size() < b.size() ? -1 : 1);
}

int Expr::compare(const Expr& a, const Expr& b) {
  if (a.constant_ != b.constant_) return a.constant_ < b.constant_ ? -1 : 1;
  if (a.terms_ == b.terms_) return 0;
  if (!a.terms_ || !b.terms_) return a.terms_ ? 1 : -1;
  for (size_t i = 0; i < std::min(a.terms_->size(), b.terms_->size()); ++i) {
    const Term &x = (*a.terms_)[i], &y = (*b.terms_)[i];
    if (const int order = compare(x.factors, y.factors)) return order;
    if (x.coefficient != y.coefficient) return x.coefficient < y.coefficient ? -1 : 1;
  }
  return a.terms_->size() == b.terms_->size() ? 0 : (a.terms_->size() < b.terms_->size() ? -1 : 1);
}

Expr Expr::from_terms(int64_t constant, Terms terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return compare(a.factors, b.factors) < 0; });
  Terms merged;
  for (Term& term : terms) {
    if (!merged.empty() && compare(merged.back().factors, term.factors) == 0)
      merged.back().coefficient = plus(merged.back().coefficient, term.coefficient);
    else
      merged.push_back(std::move(term));
  }
  std::erase_if(merged, [](const Term& term) { return term.coefficient == 0; });
  Expr result(constant);
  if (!merged.empty()) result.terms_ = std::make_shared<const Terms>(std::move(merged));
  return result;
}

Expr Expr::from_factor(Factor factor) { return from_terms(0, {Term{1, {std::move(factor)}}}); }

Expr Expr::symbol(int index) { return from_factor({Kind::kSymbol, index, nullptr}); }

int64_t Expr::constant() const {
  GX_ASSERT(is_constant());
  return constant_;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (!a.terms_ && !b.terms_) return Expr(plus(a.constant_, b.constant_));
  Expr::Terms terms;
  for (const Expr* side : {&a, &b})
    if (side->terms_) terms.insert(terms.end(), side->terms_->begin(), side->terms_->end());
  return Expr::from_terms(plus(a.constant_, b.constant_), std::move(terms));
}

Expr operator*(const Expr& a, const Expr& b) {
  if (!a.terms_ && !b.terms_) return Expr(times(a.constant_, b.constant_));
  Expr::Terms terms;
  auto add_scaled = [&](const Expr& side, int64_t scale) {
    if (!side.terms_ || scale == 0) return;
    for (const Expr::Term& term : *side.terms_) terms.push_back({times(term.coefficient, scale), term.factors});
  };
  add_scaled(a, b.constant_);
  add_scaled(b, a.constant_);
  if (a.terms_ && b.terms_)
    for (const Expr::Term& x : *a.terms_)
      for (const Expr::Term& y : *b.terms_) {
        Expr::Term term{times(x.coefficient, y.coefficient), x.factors};
        term.factors.insert(term.factors.end(), y.factors.begin(), y.factors.end());
        std::sort(term.factors.begin(), term.factors.end(),
                  [](const auto& p, const auto& q) { return Expr::compare(p, q) < 0; });
        terms.push_back(std::move(term));
      }
  return Expr::from_terms(times(a.constant_, b.constant_), std::move(terms));
}

Expr Expr::opaque(Kind kind, const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return Expr(apply(static_cast<int>(kind), a.constant_, b.constant_));
  return from_factor({kind, 0, std::make_shared<const std::pair<Expr, Expr>>(a, b)});
}

Expr floordiv(const Expr& a, const Expr& b) {
  if (b.is(1)) return a;
  if (b.is_constant() && b.constant_ != 0 && b.constant_ != -1 && a.terms_) {
    const int64_t divisor = b.constant_;
    const bool exact =
        a.constant_ % divisor == 0 &&
        std::all_of(a.terms_->begin(), a.terms_->end(), [&](const auto& t) { return t.coefficient % divisor == 0; });
    if (exact) {
      Expr::Terms terms = *a.terms_;
      for (Expr::Term& term : terms) term.coefficient /= divisor;
      return Expr::from_terms(a.constant_ / divisor, std::move(terms));
    }
  }
  return Expr::opaque(Expr::Kind::kFloorDiv, a, b);
}

Expr mod(const Expr& a, const Expr& b) {
  if (b.is(1)) return 0;
  return Expr::opaque(Expr::Kind::kMod, a, b);
}

Expr min(const Expr& a, const Expr& b) { return a == b ? a : Expr::opaque(Expr::Kind::kMin, a, b); }

Expr max(const Expr& a, const Expr& b) { return a == b ? a : Expr::opaque(Expr::Kind::kMax, a, b); }

int64_t Expr::eval(std::span<const int64_t> symbols) const {
  int64_t sum = constant_;
  if (!terms_) return sum;
  for (const Term& term : *terms_) {
    int64_t value = term.coefficient;
    for (const Factor& factor : term.factors)
      value *= factor.kind == Kind::kSymbol ? symbols[factor.symbol]
                                            : apply(static_cast<int>(factor.kind), factor.args->first.eval(symbols),
                                                    factor.args->second.eval(symbols));
    sum += value;
  }
  return sum;
}

int Expr::build(ExprBuilder& builder) const {
  using Op = ExprBuilder::Op;
  int sum = constant_ != 0 || !terms_ ? builder.constant(constant_) : -1;
  if (!terms_) return sum;
  constexpr Op kOps[] = {Op::kAdd, Op::kFloorDiv, Op::kMod, Op::kMin, Op::kMax};
  for (const Term& term : *terms_) {
    int value = term.coefficient != 1 ? builder.constant(term.coefficient) : -1;
    for (const Factor& factor : term.factors) {
      const int each = factor.kind == Kind::kSymbol
                           ? builder.symbol(factor.symbol)
                           : builder.apply(kOps[static_cast<int>(factor.kind)], factor.args->first.build(builder),
                                           factor.args->second.build(builder));
      value = value < 0 ? each : builder.apply(Op::kMul, value, each);
    }
    sum = sum < 0 ? value : builder.apply(Op::kAdd, sum, value);
  }
  return sum;
}

void Expr::collect_symbols(std::vector<int>& out) const {
  if (!terms_) return;
  for (const Term& term : *terms_)
    for (const Factor& factor : term.factors) {
      if (factor.kind == Kind::kSymbol) {
        out.push_back(factor.symbol);
      } else {
        factor.args->first.collect_symbols(out);
        factor.args->second.collect_symbols(out);
      }
    }
}

std::string Expr::str(const Factor& factor, std::span<const std::string> names) {
  if (factor.kind == Kind::kSymbol) return names[factor.symbol];
  constexpr const char* kNames[] = {"", "floordiv", "mod", "min", "max"};
  return std::string(kNames[static_cast<int>(factor.kind)]) + "(" + factor.args->first.str(names) + ", " +
         factor.args->second.str(names) + ")";
}

std::string Expr::str(std::span<const std::string> names) const {
  if (!terms_) return std::to_string(constant_);
  std::string text;
  for (const Term& term : *terms_) {
    if (!text.empty()) text += " + ";
    if (term.coefficient != 1) text += std::to_string(term.coefficient) + "*";
    for (size_t i = 0; i < term.factors.size(); ++i) text += (i ? "*" : "") + str(term.factors[i], names);
  }
  if (constant_ != 0) text += " + " + std::to_string(constant_);
  return text;
}

Expr product(std::span<const Expr> sizes) {
  Expr result(1);
  for (const Expr& size : sizes) result = result * size;
  return result;
}

std::vector<Expr> contiguous_strides(std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size(), Expr(1));
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * (sizes[i].is_constant() ? Expr(std::max<int64_t>(sizes[i].constant(), 1)) : sizes[i]);
  return strides;
}

}  // namespace graphex::ir
