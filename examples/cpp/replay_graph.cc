// Reads a graph from its text form (a file, or the one below), compiles it, and replays it at several sizes.
// Sizes named by a symbol are read off the inputs at each call: no size compiles anything again.
#include <fstream>
#include <iostream>
#include <sstream>

#include "graphex/base/error.h"
#include "graphex/compile/function.h"

using graphex::compile::Context;
using graphex::compile::Function;
using graphex::compile::Tensor;

constexpr const char* kText = R"(
graph @gated {
  sym rows
  %x: f32[rows, 8] = input
  %gate: f32[rows, 8] = input
  %s: f32[rows, 8] = sigmoid(%gate)
  %h: f32[rows, 8] = mul(%x, %s)
  %y: f32[rows] = sum(%h) {dims=[1], keepdim=false}
  return %y
}
)";

static std::string text_of(int argc, char** argv) {
  if (argc < 2) return kText;
  std::ifstream file(argv[1]);
  if (!file) graphex::fail(graphex::ErrorKind::kIo, "cannot open ", argv[1]);
  return (std::ostringstream() << file.rdbuf()).str();
}

static Tensor filled(int64_t rows, float value) {
  Tensor tensor = Tensor::make(graphex::DType::kF32, {rows, 8});
  std::fill_n(tensor.as<float>(), tensor.numel(), value);
  return tensor;
}

int main(int argc, char** argv) try {
  const Function gated(Context::make(), text_of(argc, argv));
  std::cout << gated.report().graph;
  for (const int64_t rows : {1, 3, 1000}) {
    const Tensor y = gated({filled(rows, 2), filled(rows, 0)}).at(0);
    std::cout << rows << " rows: y[" << rows - 1 << "] = " << y.as<float>()[rows - 1] << "\n";
  }
  return 0;
} catch (const graphex::Error& error) {
  std::cerr << "replay_graph: " << error.what() << "\n";
  return 1;
}
