// Recursive descent over the text form. Every fault is an Error with line and column; nothing is guessed.
#include <charconv>
#include <unordered_map>

#include "graphex/base/error.h"
#include "graphex/ir/graph.h"

namespace graphex::ir {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::unique_ptr<Graph> run() {
    expect_word("graph");
    expect("@");
    graph_->name = name();
    expect("{");
    if (peek_word("sym")) symbols();
    while (!peek_word("return")) statement();
    expect_word("return");
    if (peek('%')) do
        graph_->outputs.push_back(use());
      while (accept(","));
    expect("}");
    skip();
    if (at_ < text_.size()) error("text after the end of the graph");
    graph_->renumber();
    return std::move(graph_);
  }

 private:
  [[noreturn]] void error(const std::string& message) const {
    int line = 1, column = 1;
    for (size_t i = 0; i < std::min(at_, text_.size()); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n';
    }
    fail(ErrorKind::kInvalidArgument, "graph text, line ", line, ", column ", column, ": ", message);
  }

  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool peek(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) error("expected '" + std::string(token) + "'");
  }
  bool peek_word(std::string_view word) {
    skip();
    return text_.substr(at_, word.size()) == word &&
           (at_ + word.size() >= text_.size() || !is_name_char(text_[at_ + word.size()]));
  }
  bool accept_word(std::string_view word) {
    if (!peek_word(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect_word(std::string_view word) {
    if (!accept_word(word)) error("expected '" + std::string(word) + "'");
  }

  std::string name() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    if (start == at_) error("expected a name");
    return std::string(text_.substr(start, at_ - start));
  }

  void symbols() {
    expect_word("sym");
    do {
      const std::string symbol = name();
      if (!symbol_ids_.emplace(symbol, graph_->symbols.size()).second)
        error("symbol '" + symbol + "' is declared twice");
      graph_->symbols.push_back(symbol);
    } while (accept(","));
  }

  Expr expr() {
    Deeper deeper(*this);
    Expr sum = accept("-") ? Expr(-1) * product_of_factors() : product_of_factors();
    for (;;) {
      if (accept("+")) {
        sum = sum + product_of_factors();
      } else if (accept("-")) {
        sum = sum - product_of_factors();
      } else {
        return sum;
      }
    }
  }

  Expr product_of_factors() {
    Expr result = factor();
    while (accept("*")) result = result * factor();
    return result;
  }

  Expr factor() {
    Deeper deeper(*this);
    skip();
    if (accept("(")) {
      Expr inner = expr();
      expect(")");
      return inner;
    }
    if (accept("-")) return Expr(-1) * factor();
    if (at_ < text_.size() && is_digit(text_[at_])) return Expr(integer());
    const size_t start = at_;
    const std::string word = name();
    if (word == "floordiv" || word == "mod" || word == "min" || word == "max") return call(word);
    const auto it = symbol_ids_.find(word);
    if (it == symbol_ids_.end()) {
      at_ = start;
      error("unknown symbol '" + word + "' in a size; declare it by 'sym'");
    }
    return Expr::symbol(it->second);
  }

  Expr call(const std::string& word) {
    expect("(");
    const Expr a = expr();
    expect(",");
    const Expr b = expr();
    expect(")");
    if ((word == "floordiv" || word == "mod") && b.is(0)) error("division by zero in a size");
    return word == "floordiv" ? floordiv(a, b) : word == "mod" ? mod(a, b) : word == "min" ? min(a, b) : max(a, b);
  }

  int64_t integer() {
    int64_t value = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc()) error("expected an integer of 64 bits");
    at_ = end - text_.data();
    return value;
  }

  std::vector<Expr> list() {
    std::vector<Expr> items;
    expect("[");
    if (accept("]")) return items;
    do items.push_back(expr());
    while (accept(","));
    expect("]");
    return items;
  }

  Type type() {
    const std::string word = name();
    const auto dtype = dtype_from(word);
    if (!dtype) error("unknown dtype '" + word + "'; known are bool u8 i8 i16 i32 i64 f16 bf16 f32 f64");
    std::vector<Expr> shape = list();
    if (!accept_word("strides")) return Type(*dtype, std::move(shape));
    std::vector<Expr> strides = list();
    if (strides.size() != shape.size()) error("expected one stride for each size");
    return Type(*dtype, std::move(shape), std::move(strides));
  }

  Value* use() {
    expect("%");
    const std::string value_name = name();
    const auto it = values_.find(value_name);
    if (it == values_.end()) error("%" + value_name + " is used before it is defined");
    return it->second;
  }

  void define(const std::string& value_name, Value* value) {
    if (!values_.emplace(value_name, value).second) error("%" + value_name + " is defined twice");
    value->name = value_name;
    graph_->reserve_name(value_name);
  }

  void statement() {
    if (accept_word("write")) return write();
    std::vector<std::string> result_names;
    std::vector<Type> types;
    if (peek('%')) {
      do {
        expect("%");
        result_names.push_back(name());
        expect(":");
        types.push_back(type());
      } while (accept(","));
      expect("=");
    }
    if (peek_word("input") && types.size() == 1) {
      expect_word("input");
      if (!graph_->nodes.empty()) error("inputs come before nodes");
      return define(result_names[0], graph_->add_input("", std::move(types[0])));
    }
    node(result_names, std::move(types));
  }

  void write() {
    Value* input = use();
    if (input->node) error("write needs an input on its left side; %" + input->name + " is the result of a node");
    expect("<-");
    graph_->writes.push_back({input, use()});
  }

  void node(const std::vector<std::string>& result_names, std::vector<Type> types) {
    const std::string op = name();
    std::vector<Value*> inputs;
    expect("(");
    if (!accept(")")) {
      do inputs.push_back(use());
      while (accept(","));
      expect(")");
    }
    std::map<std::string, Attr> attrs;
    if (accept("{")) do {
        const std::string key = name();
        expect("=");
        if (!attrs.emplace(key, attr()).second) error("attribute '" + key + "' is given twice");
      } while (accept(","));
    if (!attrs.empty()) expect("}");
    Node* made = graph_->add_node(op, std::move(inputs), std::move(types), std::move(attrs));
    for (size_t i = 0; i < result_names.size(); ++i) define(result_names[i], made->out(static_cast<int>(i)));
  }

  Attr attr() {
    skip();
    if (peek('[')) return list();
    if (peek('"')) return string();
    if (accept_word("true")) return true;
    if (accept_word("false")) return false;
    if (auto number = floating()) return *number;
    return expr();
  }

  std::optional<double> floating() {
    const size_t start = at_;
    size_t end = at_;
    if (end < text_.size() && text_[end] == '-') ++end;
    if (text_.substr(end, 3) == "inf" || text_.substr(end, 3) == "nan") {
      at_ = end + 3;
      const double value = text_[end] == 'i' ? __builtin_inf() : __builtin_nan("");
      return end != start ? -value : value;
    }
    while (end < text_.size() && is_digit(text_[end])) ++end;
    if (end >= text_.size() || (text_[end] != '.' && text_[end] != 'e')) return std::nullopt;
    double value = 0;
    const auto [stop, status] = std::from_chars(text_.data() + start, text_.data() + text_.size(), value);
    if (status == std::errc::invalid_argument) error("expected a number");
    at_ = stop - text_.data();
    return value;
  }

  std::string string() {
    expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') ++at_;
      if (at_ < text_.size()) out += text_[at_++];
    }
    expect("\"");
    return out;
  }

  // Bounds the recursion, so that hostile text can't exhaust the stack.
  struct Deeper {
    explicit Deeper(Parser& parser) : parser(parser) {
      if (++parser.depth_ > 200) parser.error("expression is nested too deeply");
    }
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  std::unordered_map<std::string, int> symbol_ids_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace

std::unique_ptr<Graph> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace graphex::ir
