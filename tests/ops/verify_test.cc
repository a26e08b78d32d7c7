// The verifier: sound graphs pass, every kind of fault names its node.
#include <gtest/gtest.h>

#include "graphex/base/error.h"
#include "graphex/ops/op_def.h"
#include "graphex/ops/reference.h"

namespace graphex::ops {
namespace {

std::string fault_of(const std::string& body) {
  const std::string text = "graph @g {\n  sym n\n  %x: f32[n, 4] = input\n  %i: i64[3] = input\n" + body + "\n}";
  try {
    verify(*ir::parse(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(Verify, SoundGraphsPass) {
  EXPECT_EQ(fault_of("%a: f32[n, 4] = add(%x, %x) %b: bf16[n] = sum(%a) {dims=[1]} %c: bool[n, 4] = lt(%x, %a) write "
                     "%x <- %a return %b, %c"),
            "");
}

TEST(Verify, FaultsNameTheNode) {
  const struct {
    const char* body;
    const char* expected;
  } kCases[] = {
      {"%a: f32[n, 4] = frobnicate(%x) return %a", "node %a (frobnicate): unknown operator"},
      {"%a: f32[n, 4] = add(%x) return %a", "node %a (add): has 1 operands; expected 2"},
      {"%a: f32[n, 4], %b: f32[n, 4] = add(%x, %x) return %a", "has 2 results; expected 1"},
      {"%a: f32[n, 5] = add(%x, %x) return %a", "%a has shape"},
      {"%a: i64[n, 4] = add(%x, %x) return %a", "the result is i64; expected f32"},
      {"%a: f32[n, 4] = lt(%x, %x) return %a", "expected bool"},
      {"%a: f32[n, 4] = add(%x, %i) return %a", "node %a (add)"},
      {"%c: f32[4] = cast(%i) return %c", "%c has shape"},
      {"%a: f32[n, 4] = where(%x, %x, %x) return %a", "the condition must be bool"},
      {"%a: f32[n] = sum(%x) {dims=[2]} return %a", "dims holds 2; expected 0 to 1"},
      {"%a: f32[n] = sum(%x) return %a", "attribute 'dims' is missing"},
      {"%a: f32[n] = sum(%x) {dims=[0]} return %a", "%a has shape"},
      {"%a: f32[n, 4] = full() return %a", "attribute 'value' is missing"},
      {"%a: f32[4] = iota() {start=0, step=1} return %a", "expected an integer result"},
      {"%a: bf16[n, 4] = view(%x) {offset=0} return %a", "a view has its operand's dtype"},
      {"%a: f32[n, 4] = view(%x) return %a", "attribute 'offset' is missing"},
      {"%a: bf16[n, 4] = copy(%x) return %a", "use cast to convert"},
      {"%a: f32[n, 8] = cat(%x, %x) {dim=2} return %a", "attribute 'dim' is 2; expected 0 to 1"},
      {"%a: f32[n, 9] = cat(%x, %x) {dim=1} return %a", "%a has shape"},
      {"%a: f32[n, n] = matmul(%x, %x) return %a", "inner sizes differ"},
      {"%a: f32[3, 4] = index_select(%x, %x) {dim=0} return %a", "expected i64 or i32"},
      {"%a: f32[4, 4] = index_select(%x, %i) {dim=0} return %a", "%a has shape"},
      {"%a: i32[n] = argmax(%x) {dim=1} return %a", "the result must be i64"},
      {"%a: f32[n, 4], %b: i32[n, 4] = sort(%x) {dim=1, descending=true, stable_from=0} return %a", "must be i64"},
      {"%a: f32[n, 4] = sort(%x) {dim=1, descending=true, stable_from=0} return %a", "has 1 results; expected 2"},
      {"%a: f32[n, 3], %b: i64[n, 3] = topk(%x) {dim=1, k=2, largest=true, sorted=true} return %a", "expected [s0, 2]"},
      {"%a: f32[n, 4] = region_write(%x, %x) {offset=0, strides=[1]} return %a", "one stride for each size"},
      {"%a: f32[n, 4] = island(%x) return %a", "attribute 'call' is missing"},
      {"write %x <- %i return", "write %x: %i has another dtype or shape"},
      {"write %x <- %x write %x <- %x return", "write %x: written twice"},
  };
  for (const auto& [body, expected] : kCases)
    EXPECT_NE(fault_of(body).find(expected), std::string::npos) << body << "\ngave: " << fault_of(body);
}

TEST(Verify, DefinitionsComeBeforeUses) {
  auto graph = ir::parse("graph @g { %x: f32[] = input %a: f32[] = neg(%x) %b: f32[] = neg(%a) return %b }");
  std::swap(graph->nodes.front(), graph->nodes.back());
  EXPECT_THROW(verify(*graph), Error);
}

TEST(Table, EveryOperatorButIslandsHasAReference) {
  for (const OpDef* op : all_ops())
    EXPECT_EQ(reference::has_reference(op->name), op->kind != OpKind::kIsland) << op->name;
}

TEST(Reference, ViewsSeeTheLayoutOfTheirBase) {
  const auto graph = ir::parse(
      "graph @g { %x: i32[2, 3] strides [1, 2] = input %v: i32[6] = view(%x) {offset=0} "
      "%t: i32[2] strides [2] = view(%v) {offset=1} write %x <- %x return %v, %t }");
  const reference::Array x{DType::kI32, {2, 3}, {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}}};
  const reference::Results results = reference::evaluate(*graph, {}, {x});
  std::vector<int64_t> v, t;
  for (const auto& n : results.outputs[0].data) v.push_back(n.i);
  for (const auto& n : results.outputs[1].data) t.push_back(n.i);
  EXPECT_EQ(v, (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(t, (std::vector<int64_t>{4, 5}));
}

TEST(Reference, RoundsAndWraps) {
  using reference::convert;
  using reference::round_to;
  EXPECT_EQ(round_to(DType::kBF16, {1 + 0x1p-8}).f, 1);
  EXPECT_EQ(round_to(DType::kBF16, {1 + 0x3p-8}).f, 1 + 0x1p-6);
  EXPECT_EQ(convert(DType::kF32, DType::kI32, {-2.7}).i, -2);
  EXPECT_EQ(convert(DType::kI64, DType::kU8, {0, 257}).i, 1);
  EXPECT_EQ(convert(DType::kF32, DType::kBool, {0.1}).i, 1);
}

}  // namespace
}  // namespace graphex::ops
