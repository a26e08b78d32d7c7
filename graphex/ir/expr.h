// Integer expressions over symbolic sizes, kept in a normal form (a sum of products) so that equal sizes compare equal.
//
// An Expr is an immutable value. Constants need no memory. Products of sums are multiplied out; floordiv, mod, min and
// max of non-constants are opaque factors whose arguments are themselves normal.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace graphex::ir {

// Receives an expression bottom-up; every call returns a handle of the receiver's own.
class ExprBuilder {
 public:
  enum class Op : uint8_t { kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  virtual ~ExprBuilder() = default;
  virtual int constant(int64_t value) = 0;
  virtual int symbol(int index) = 0;
  virtual int apply(Op op, int a, int b) = 0;
};

class Expr {
 public:
  Expr(int64_t constant = 0) : constant_(constant) {}  // NOLINT: sizes are mostly integers
  static Expr symbol(int index);

  bool is_constant() const { return terms_ == nullptr; }
  int64_t constant() const;  // only if is_constant()
  bool is(int64_t value) const { return is_constant() && constant_ == value; }

  // The value with symbol i = symbols[i].
  int64_t eval(std::span<const int64_t> symbols) const;
  // "s0*4 + 1" with the given symbol names.
  std::string str(std::span<const std::string> symbol_names) const;
  int build(ExprBuilder& builder) const;
  // Adds the indices of the symbols that occur to `out`.
  void collect_symbols(std::vector<int>& out) const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b) { return a + b * Expr(-1); }
  friend Expr floordiv(const Expr& a, const Expr& b);
  friend Expr mod(const Expr& a, const Expr& b);
  friend Expr min(const Expr& a, const Expr& b);
  friend Expr max(const Expr& a, const Expr& b);
  friend bool operator==(const Expr& a, const Expr& b) { return compare(a, b) == 0; }
  // A total order, of no meaning but stable.
  static int compare(const Expr& a, const Expr& b);

 private:
  enum class Kind : uint8_t { kSymbol, kFloorDiv, kMod, kMin, kMax };
  struct Factor;
  struct Term;
  using Terms = std::vector<Term>;
  static Expr from_terms(int64_t constant, Terms terms);
  static Expr from_factor(Factor factor);
  static Expr opaque(Kind kind, const Expr& a, const Expr& b);
  static int compare(const Factor& a, const Factor& b);
  static int compare(const std::vector<Factor>& a, const std::vector<Factor>& b);
  static std::string str(const Factor& factor, std::span<const std::string> names);

  int64_t constant_ = 0;                // the constant term
  std::shared_ptr<const Terms> terms_;  // the others, sorted by their factors
};

// Product of a shape's sizes.
Expr product(std::span<const Expr> sizes);
// Row-major strides as PyTorch gives them to a contiguous tensor: a size of 0 counts as 1.
std::vector<Expr> contiguous_strides(std::span<const Expr> sizes);

}  // namespace graphex::ir
