// The text form: what is printed reads back, and every fault has its place.
#include <gtest/gtest.h>

#include "graphex/base/error.h"
#include "graphex/ir/graph.h"

namespace graphex::ir {
namespace {

constexpr const char* kCanonical = R"(graph @decode {
  sym s0, s1
  %x: f32[s0, 64] = input
  %w: bf16[64, 64] strides [1, 64] = input
  %h: f32[s0, 64] = add(%x, %x)
  %v: f32[64, s0] strides [1, 64] = view(%h) {offset=0}
  %e: f32[2*s0*s1 + 3, min(s0, 4)] = full() {value=-1.5e-07}
  %m: f32[s0], %i: i64[s0] = pair(%h) {at="model.py:12", dims=[1, s1], keepdim=false, low=-inf, n=0.0, odd=nan}
  island(%m) {call=0, effect=true}
  write %x <- %h
  return %h, %v, %h, %x
}
)";

std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(Text, CanonicalFormIsAFixedPoint) { EXPECT_EQ(print(*parse(kCanonical)), kCanonical); }

TEST(Text, SpacesCommentsAndDefaultStridesDoNotMatter) {
  const auto graph =
      parse("graph @g{sym n#size\n%x:f32[n,2]strides[2,1]=input %y:f32[n,2]=add(%x,%x){k=(n+1)*2}return %y}");
  EXPECT_EQ(
      print(*graph),
      "graph @g {\n  sym n\n  %x: f32[n, 2] = input\n  %y: f32[n, 2] = add(%x, %x) {k=2*n + 2}\n  return %y\n}\n");
}

TEST(Text, StringsKeepQuotesAndBackslashes) {
  const auto graph = parse(R"(graph @g { %a: f32[] = island() {at="a \"b\" \\ c", call=0} return %a })");
  EXPECT_EQ(graph->nodes.front()->text("at"), "a \"b\" \\ c");
  EXPECT_EQ(print(*parse(print(*graph))), print(*graph));
}

TEST(Text, FreshNamesStayApartFromParsedOnes) {
  auto graph = parse("graph @g { %.7: f32[] = full() {value=0.0} return %.7 }");
  EXPECT_EQ(graph->fresh_name(), ".8");
}

TEST(Text, FaultsHaveLineAndColumn) {
  const struct {
    const char* text;
    const char* expected;
  } kCases[] = {
      {"", "line 1, column 1: expected 'graph'"},
      {"graph g {}", "line 1, column 7: expected '@'"},
      {"graph @ {}", "column 9: expected a name"},
      {"graph @g {\n  sym a, a\n return }", "line 2, column 11: symbol 'a' is declared twice"},
      {"graph @g {\n  %x: f31[] = input\n return }", "unknown dtype 'f31'; known are bool"},
      {"graph @g {\n  %x: f32[n] = input\n return }", "line 2, column 11: unknown symbol 'n'"},
      {"graph @g {\n  %x: f32[2] strides [1, 1] = input\n return }", "expected one stride for each size"},
      {"graph @g {\n  %x: f32[] = input\n  %x: f32[] = input\n return }", "line 3, column 20: %x is defined twice"},
      {"graph @g {\n  return %y\n}", "line 2, column 12: %y is used before it is defined"},
      {"graph @g { %a: f32[] = full() {value=0.0} %x: f32[] = input return }", "inputs come before nodes"},
      {"graph @g { %a: f32[] = full() {value=0.0} write %a <- %a return }", "write needs an input on its left side"},
      {"graph @g { %a: f32[] = full() {v=1, v=2} return }", "attribute 'v' is given twice"},
      {"graph @g { %a: f32[] = full() {v=} return }", "expected a name"},
      {"graph @g { %a: f32[floordiv(4, 0)] = input return }", "division by zero"},
      {"graph @g { %a: f32[99999999999999999999] = input return }", "expected an integer of 64 bits"},
      {"graph @g { %a: f32[] = full() {v=\"open return }", "expected '\"'"},
      {"graph @g { return } more", "text after the end of the graph"},
      {"graph @g { return", "expected '}'"},
      {"graph @g {", "expected a name"},
  };
  for (const auto& [text, expected] : kCases) {
    const std::string message = message_of(text);
    EXPECT_NE(message.find(expected), std::string::npos) << text << "\ngave: " << message;
    EXPECT_NE(message.find("graph text, line "), std::string::npos) << message;
  }
}

TEST(Text, DeepNestingIsRefusedNotFatal) {
  for (const char* open : {"(", "-", "min(1, "}) {
    std::string text = "graph @g { %x: f32[";
    for (int i = 0; i < 100000; ++i) text += open;
    EXPECT_NE(message_of(text).find("nested too deeply"), std::string::npos) << open;
  }
}

TEST(Graph, SweepKeepsWhatIsNeededAndEffects) {
  auto graph = parse(R"(graph @g {
  %x: f32[] = input
  %a: f32[] = neg(%x)
  %b: f32[] = neg(%a)
  %c: f32[] = neg(%x)
  %i: f32[] = island(%c) {call=0, effect=true}
  %j: f32[] = island(%c) {call=1}
  %w: f32[] = abs(%x)
  write %x <- %w
  return %a
})");
  graph->sweep();
  std::string ops;
  for (const auto& node : graph->nodes) ops += node->out()->name + " ";
  EXPECT_EQ(ops, "a c i w ");
}

TEST(Graph, ReplaceUsesReachesNodesWritesAndResults) {
  auto graph =
      parse("graph @g { %x: f32[] = input %a: f32[] = neg(%x) %b: f32[] = neg(%a) write %x <- %a return %a, %b }");
  Value* a = graph->nodes.front()->out();
  Node* fresh = graph->add_node("abs", {graph->inputs[0].get()}, {a->type}, {}, graph->nodes.back().get());
  graph->replace_uses(a, fresh->out());
  graph->sweep();
  const std::string name = fresh->out()->name;
  EXPECT_EQ(print(*graph), "graph @g {\n  %x: f32[] = input\n  %" + name + ": f32[] = abs(%x)\n  %b: f32[] = neg(%" +
                               name + ")\n  write %x <- %" + name + "\n  return %" + name + ", %b\n}\n");
}

TEST(Node, AttributesOfTheWrongKindNameTheNode) {
  auto graph = parse("graph @g { sym n %a: f32[n] = thing() {f=1.5, e=n, s=\"t\"} return %a }");
  const Node& node = *graph->nodes.front();
  EXPECT_EQ(node.number("f"), 1.5);
  EXPECT_FALSE(node.flag("absent"));
  for (const char* name : {"absent", "s", "f"}) EXPECT_THROW(node.expr(name), Error) << name;
  try {
    node.integer("e");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("node %a (thing)"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace graphex::ir
