// From the text of a graph to results in memory, through everything in between.
#include "graphex/compile/function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>

#include "graphex/base/error.h"

namespace graphex::compile {
namespace {

const Context& context() {
  static const Context shared = Context::make();
  return shared;
}

Tensor filled(std::vector<int64_t> shape, float first, float step) {
  Tensor tensor = Tensor::make(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.as<float>()[i] = first + step * static_cast<float>(i);
  return tensor;
}

constexpr const char* kScale = R"(
graph @scale {
  sym n
  %x: f32[n, 4] = input
  %w: f32[4] = input
  %y: f32[n, 4] = mul(%x, %w)
  %z: f32[n, 4] = add(%y, %x)
  return %z
}
)";

TEST(Function, ReplaysAtSizesItHasNeverSeen) {
  const Function scale(context(), kScale);
  const Tensor w = filled({4}, 1, 1);
  for (const int64_t rows : {1, 7, 300, 0, 2, 301}) {
    const Tensor x = filled({rows, 4}, -3, 0.25f);
    const Tensor z = scale({x, w}).at(0);
    ASSERT_EQ(z.shape, (std::vector<int64_t>{rows, 4}));
    for (int64_t i = 0; i < z.numel(); ++i)
      ASSERT_EQ(z.as<float>()[i], x.as<float>()[i] * w.as<float>()[i % 4] + x.as<float>()[i])
          << rows << " rows, element " << i;
  }
}

TEST(Function, ResultsOfEarlierCallsStay) {
  const Function scale(context(), kScale);
  const Tensor w = filled({4}, 1, 0);
  const Tensor first = scale({filled({2, 4}, 1, 0), w}).at(0);
  const Tensor second = scale({filled({2, 4}, 5, 0), w}).at(0);
  EXPECT_EQ(first.as<float>()[7], 2);
  EXPECT_EQ(second.as<float>()[7], 10);
}

TEST(Function, AViewOfAnInputIsReturnedAsOne) {
  const Function turn(context(), R"(
graph @turn {
  sym n
  %x: f32[n, 3] = input
  %t: f32[3, n] strides [1, 3] = view(%x) {offset=0}
  return %t, %x
})");
  const Tensor x = filled({5, 3}, 0, 1);
  const std::vector<Tensor> out = turn({x});
  EXPECT_EQ(out[0].data, x.data);
  EXPECT_EQ(out[0].shape, (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(out[0].strides, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(out[1].data, x.data);
}

TEST(Function, WritesItsInputAndRefusesSharedMemory) {
  const Function bump(context(), R"(
graph @bump {
  sym n
  %x: f32[n] = input
  %d: f32[n] = input
  %y: f32[n] = add(%x, %d)
  write %x <- %y
  return %y
})");
  Tensor x = filled({9}, 0, 1);
  bump({x, filled({9}, 10, 0)});
  EXPECT_EQ(x.as<float>()[8], 18);
  EXPECT_THROW(bump({x, x}), Error);
}

TEST(Function, ThreadsCallItTogether) {
  const Function scale(context(), kScale);
  const auto work = [&](int64_t rows) {
    for (int64_t i = 0; i < 200; ++i) {
      const Tensor z = scale({filled({rows + i % 5, 4}, 1, 0), filled({4}, 2, 0)}).at(0);
      ASSERT_EQ(z.as<float>()[z.numel() - 1], 3);
    }
  };
  std::thread other(work, 40);
  work(3);
  other.join();
}

void expect_refused(const Function& function, std::initializer_list<Tensor> inputs, const std::string& part) {
  try {
    function(inputs);
    ADD_FAILURE() << "not refused: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Function, SaysWhatIsWrongWithAnInput) {
  const Function scale(context(), kScale);
  const Tensor x = filled({2, 4}, 0, 1), w = filled({4}, 0, 1);
  expect_refused(scale, {x}, "expected 2 inputs, got 1");
  expect_refused(scale, {Tensor::make(DType::kF64, {2, 4}), w}, "input %x is f64; expected f32");
  expect_refused(scale, {filled({2}, 0, 1), w}, "input %x has 1 sizes and 1 strides; expected 2 of each");
  expect_refused(scale, {x, filled({5}, 0, 1)}, "input %w has size 5 in dimension 0; expected 4");
  expect_refused(scale, {Tensor{DType::kF32, {2, 4}, {1, 2}, x.data, x.memory}, w},
                 "input %x has stride 1 in dimension 0; expected 4");
  expect_refused(scale, {Tensor::over(nullptr, DType::kF32, {2, 4}), w}, "input %x has no memory");
}

void expect_no_graph(const char* text, const std::string& part) {
  try {
    Function function(context(), text);
    ADD_FAILURE() << "not refused: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Function, SaysWhatIsWrongWithAGraph) {
  expect_no_graph("graph @g {\n  %x: f32[4] = input\n  %y: f32[4] = frob(%x)\n  return %y\n}", "frob");
  expect_no_graph("graph @g {\n  %x: f32[4] = input\n  return %z\n}", "z");
  expect_no_graph("graph @g {\n  sym n\n  %x: f32[4] = input\n  return %x\n}",
                  "symbol n is neither a size nor a stride");
  expect_no_graph(
      "graph @g {\n  %x: f32[4] = input\n  %y: f32[4] = island(%x) {call=0, name=\"aten::sort\"}\n  return %y\n}",
      "%y is an island");
}

}  // namespace
}  // namespace graphex::compile
