// Writes to inputs, and sharing of memory: where a compiler of this kind goes silently wrong. Every graph is compared
// with the reference evaluator.
#include "tests/compile/harness.h"

namespace graphex::test {
namespace {

const std::vector<std::vector<int64_t>> kSizes = {{1, 1}, {3, 5}, {0, 4}, {64, 48}, {300, 257}};

std::string graph(const std::string& body) {
  return "graph @g {\n  sym n, m\n  %x: f32[n, m] = input\n  %y: f32[n, m] = input\n" + body + "}\n";
}

TEST(Traps, InPlaceWithReadersOfTheOldValue) {
  expect_same(graph("  %a: f32[n, m] = exp(%x)\n  write %x <- %a\n  return\n"), kSizes);
  expect_same(graph("  %b: f32[n] = sum(%x) {dims=[1], keepdim=false}\n  %a: f32[n, m] = neg(%x)\n  write %x <- %a\n  "
                    "return %b\n"),
              kSizes, 1e-4);
  expect_same(graph("  %a: f32[n, m] = neg(%x)\n  %b: f32[n, m] = add(%x, %y)\n  write %x <- %a\n  return %b\n"),
              kSizes);
  expect_same(graph("  %a: f32[n, m] = neg(%y)\n  %c: f32[n, 1] = amax(%y) {dims=[1], keepdim=true}\n"
                    "  %b: f32[n, m] = add(%x, %c)\n  write %x <- %a\n  return %b, %x\n"),
              {{3, 5}, {64, 48}});
}

TEST(Traps, InputsChangePlaces) {
  expect_same(graph("  write %x <- %y\n  write %y <- %x\n  return\n"), kSizes);
  expect_same(graph("  %a: f32[n, m] = neg(%x)\n  %b: f32[n, m] = abs(%y)\n  write %x <- %b\n  write %y <- %a\n  "
                    "return %x, %b\n"),
              kSizes);
  expect_same(graph("  write %x <- %x\n  write %y <- %x\n  return %y\n"), kSizes);
}

// An expanded result is copied once, not once for each element that shares a place.
TEST(Traps, ExpandedResultsThatSeeAWrittenInput) {
  const std::string body =
      "  %v: f32[m, n, m] strides [0, m, 1] = view(%x) {offset=0}\n  %a: f32[n, m] = neg(%x)\n  write %x <- %a\n"
      "  return %v, %x, %v\n";
  expect_same(graph(body), kSizes);
  Both both(graph(body));
  EXPECT_EQ(both.function().report().graph.find("strides [0, m, 1] = copy"), std::string::npos);
}

TEST(Traps, ResultsThatSeeAWrittenInput) {
  expect_same(graph("  %v: f32[m, n] strides [1, m] = view(%x) {offset=0}\n  %a: f32[n, m] = neg(%x)\n  write %x <- "
                    "%a\n  return %v, %x\n"),
              kSizes);
  expect_same(graph("  %a: f32[n, m] = neg(%x)\n  %v: f32[m, n] strides [1, m] = view(%a) {offset=0}\n  write %x <- "
                    "%a\n  return %v, %a\n"),
              kSizes);
  expect_same(graph("  %a: f32[n, m] = neg(%x)\n  write %x <- %a\n  write %y <- %a\n  return %a, %a\n"), kSizes);
}

TEST(Traps, TransposedReadsOfTheWrittenInput) {
  const std::string square =
      "graph @g {\n  sym n\n  %x: f32[n, n] = input\n  %t: f32[n, n] strides [1, n] = view(%x) {offset=0}\n";
  expect_same(square + "  %a: f32[n, n] = add(%x, %t)\n  write %x <- %a\n  return\n}\n", {{1}, {5}, {130}});
  expect_same(square + "  write %x <- %t\n  return %t\n}\n", {{1}, {5}, {130}});
  expect_same(square +
                  "  %r: f32[n, 1] = sum(%x) {dims=[1], keepdim=true}\n  %a: f32[n, n] = sub(%x, %r)\n  write %x <- "
                  "%a\n  return\n}\n",
              {{1}, {5}, {130}}, 1e-4);
  expect_same(square +
                  "  %r: f32[1, n] = sum(%x) {dims=[0], keepdim=true}\n  %a: f32[n, n] = sub(%x, %r)\n  write %x <- "
                  "%a\n  return\n}\n",
              {{1}, {5}, {130}}, 1e-4);
}

TEST(Traps, ABroadcastRowOfTheWrittenInput) {
  // The first row of x is read for every row of the result, which would lie in x.
  expect_same(graph("  %r: f32[1, m] strides [m, 1] = view(%x) {offset=0}\n  %a: f32[n, m] = mul(%x, %r)\n  write %x "
                    "<- %a\n  return\n"),
              {{1, 1}, {3, 5}, {64, 48}, {300, 257}});
}

TEST(Traps, ChainsInPlace) {
  const std::string head = "graph @g {\n  sym n\n  %x: f32[8, n] = input\n  %s: f32[n] = input\n";
  const auto step = [](const std::string& to, const std::string& from, int row) {
    return "  %" + to + ": f32[8, n] = region_write(%" + from + ", %s) {offset=" + std::to_string(row) +
           "*n, strides=[1]}\n";
  };
  expect_same(head + step("a", "x", 0) + step("b", "a", 3) + "  write %x <- %b\n  return\n}\n", {{1}, {7}, {500}});
  expect_same(head + step("a", "x", 0) + step("b", "a", 3) + "  write %x <- %b\n  return %a\n}\n", {{1}, {7}, {500}});
  expect_same(head + step("a", "x", 0) + step("b", "x", 3) + "  write %x <- %b\n  return %a\n}\n", {{1}, {7}, {500}});
  expect_same(head + step("a", "x", 0) + "  %n: f32[8, n] = neg(%x)\n" + step("b", "a", 3) +
                  "  write %x <- %b\n  return %n\n}\n",
              {{1}, {7}, {500}});
  expect_same(head + "  %c: f32[8, n] = exp(%x)\n" + step("a", "c", 0) + step("b", "c", 3) +
                  "  %d: f32[8, n] = add(%a, %b)\n  return %d\n}\n",
              {{1}, {7}, {500}});
}

TEST(Traps, ARegionFromTheOperandItself) {
  expect_same(
      "graph @g {\n  sym n\n  %x: f32[4, n] = input\n  %r: f32[n] = view(%x) {offset=2*n}\n"
      "  %a: f32[4, n] = region_write(%x, %r) {offset=0, strides=[1]}\n  write %x <- %a\n  return\n}\n",
      {{1}, {7}, {400}});
  expect_same(
      "graph @g {\n  sym n\n  %x: f32[4, n] = input\n  %e: f32[4, n] = exp(%x)\n  %r: f32[3, n] = view(%e) {offset=0}\n"
      "  %a: f32[4, n] = region_write(%e, %r) {offset=n, strides=[n, 1]}\n  return %a\n}\n",
      {{1}, {7}, {400}});
}

TEST(Traps, RowsStoredWhole) {
  expect_same(graph("  %r: f32[n, 1] = sum(%x) {dims=[1], keepdim=true}\n  %f: f32[n, m] = full() {value=2.0}\n"
                    "  %a: f32[n, m] = mul(%f, %r)\n  return %a, %r\n"),
              {{1, 1}, {3, 5}, {64, 48}}, 1e-4);
  expect_same(
      graph("  %f: f32[n, m] = full() {value=0.5}\n  %s: f32[] = sum(%f) {dims=[], keepdim=false}\n  return %s\n"),
      kSizes);
  expect_same(graph("  %f: f32[n, m] = full() {value=0.5}\n  %s: f32[n] = sum(%f) {dims=[1], keepdim=false}\n"
                    "  %t: f32[n, m] = add(%x, %f)\n  return %s, %t, %f\n"),
              kSizes);
}

TEST(Traps, ReductionsOverNothing) {
  expect_same(
      "graph @g {\n  %x: f32[] = input\n  %s: f32[] = sum(%x) {dims=[], keepdim=false}\n  %a: bool[] = any(%x) "
      "{dims=[]}\n"
      "  return %s, %a\n}\n");
  expect_same(
      "graph @g {\n  sym n\n  %x: bf16[n, 1] = input\n  %s: f32[n] = sum(%x) {dims=[1], keepdim=false}\n"
      "  %t: f32[n, 1] = amax(%x) {dims=[1], keepdim=true}\n  %u: f32[n, n] = add(%s, %t)\n"
      "  %v: f32[n] = sum(%u) {dims=[1]}\n  return %s, %v\n}\n",
      {{1}, {6}}, 1e-4);
}

TEST(Traps, CatOfWrittenAndOfItself) {
  expect_same(graph("  %a: f32[n, m] = neg(%x)\n  %c: f32[2*n, m] = cat(%x, %a) {dim=0}\n  %d: f32[n, 2*m] = cat(%a, "
                    "%a) {dim=1}\n"
                    "  write %x <- %a\n  return %c, %d\n"),
              kSizes);
}

}  // namespace
}  // namespace graphex::test
