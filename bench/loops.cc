// Generated loops on one core, from DRAM and from the L2 cache, beside a generated copy: bytes of operands per second.
// A kernel at memory speed moves bytes as fast as the copy does. Counters: GB/s, and compile_ms, the processor time of
// a cold compile.
#include <benchmark/benchmark.h>

#include <ctime>
#include <functional>

#include "tests/codegen/loop_reference.h"

namespace {

using namespace graphex;
using namespace graphex::codegen;
using graphex::codegen::testing::Problem;

Problem space(std::vector<int64_t> extents, int reduced) {
  Problem p;
  p.spec.rank = static_cast<int>(extents.size());
  p.spec.reduced = reduced;
  p.extents = std::move(extents);
  return p;
}

Problem copy(DType dtype, int64_t n) {
  Problem p = space({n}, 0);
  p.output(dtype, p.input(dtype));
  return p;
}
Problem add(DType dtype, int64_t n) {
  Problem p = space({n}, 0);
  const int a = p.input(dtype), b = p.input(dtype);
  p.output(dtype, p.scalar("add", {a, b}));
  return p;
}
Problem unary(const char* function, DType dtype, int64_t n) {
  Problem p = space({n}, 0);
  p.output(dtype, p.scalar(function, {p.input(dtype)}));
  return p;
}
Problem silu_mul(DType dtype, int64_t n) {
  Problem p = space({n}, 0);
  const int gate = p.input(dtype), up = p.input(dtype);
  p.output(dtype, p.scalar("mul", {p.cast(dtype, p.scalar("silu", {gate})), up}));
  return p;
}
Problem narrow_rows(int64_t n) {  // rows of 32: rotary's halves
  Problem p = space({n / 64, 32}, 0);
  const int a = p.load(p.add_operand(DType::kF32, false, {0, 1}, p.none(), 0));
  const int b = p.load(p.add_operand(DType::kF32, false, {0, 1}, {true, false}, 0));
  p.output(DType::kF32, p.scalar("mul", {a, b}));
  return p;
}
Problem rms_norm(DType dtype, int64_t n, int64_t width) {
  Problem p = space({n / width, width}, 1);
  const int x = p.cast(DType::kF32, p.input(dtype));
  const int w = p.load(p.add_operand(dtype, false, {0, 1}, {true, false}));
  const int sum = p.reduce("sum", p.scalar("mul", {x, x}), DType::kF32);
  const int mean = p.scalar("mul", {sum, p.constant(DType::kF32, 1.0 / static_cast<double>(width))});
  const int scale = p.scalar("rsqrt", {p.scalar("add", {mean, p.constant(DType::kF32, 1e-5)})});
  p.output(dtype, p.scalar("mul", {w, p.cast(dtype, p.scalar("mul", {x, scale}))}));
  return p;
}
Problem softmax(DType dtype, int64_t n, int64_t width) {
  Problem p = space({n / width, width}, 1);
  const int x = p.cast(DType::kF32, p.input(dtype));
  const int e = p.scalar("exp", {p.scalar("sub", {x, p.reduce("max", x, DType::kF32)})});
  p.output(dtype, p.scalar("div", {e, p.reduce("sum", e, DType::kF32)}));
  return p;
}
Problem row_sum(const char* function, DType dtype, int64_t n, int64_t width) {
  Problem p = space({n / width, width}, 1);
  p.row_output(dtype, p.reduce(function, p.input(dtype), dtype));
  return p;
}
Problem column_sum(int64_t n, int64_t width) {
  Problem p = space({width, n / width}, 1);
  p.row_output(DType::kF32, p.reduce("sum", p.load(p.add_operand(DType::kF32, false, {1, 0}, p.none())), DType::kF32));
  return p;
}

double cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

void run(benchmark::State& state, Problem p) {
  std::mt19937 random(1);
  p.fill(random, -4, 4);
  const KernelRequest request = LoopKernel{std::make_shared<LoopSpec>(p.spec)};
  KernelCompiler compiler({.use_cache = false});
  const double start = cpu_ms();
  const Kernel kernel = compiler.compile(std::span(&request, 1))[0];
  const double compile = cpu_ms() - start;
  std::vector<void*> pointers;
  int64_t bytes = 0;
  for (auto& tensor : p.tensors) {
    pointers.push_back(tensor.bytes.data());
    bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  const std::vector<int64_t> sizes = p.sizes();
  const int64_t tiles = kernel.tiles(sizes.data());
  const auto scratch = std::make_unique<std::byte[]>(GX_SCRATCH_BYTES);
  GxWorker worker{scratch.get(), nullptr, 0, 1, 0};
  for (auto _ : state) kernel.run(pointers.data(), sizes.data(), 0, tiles, &worker);
  state.SetBytesProcessed(bytes * state.iterations());
  state.counters["compile_ms"] = compile;
}

void add_all(const char* where, int64_t n) {
  const auto add_one = [&](const std::string& name, const std::function<Problem()>& make) {
    benchmark::RegisterBenchmark((where + ("/" + name)).c_str(),
                                 [make](benchmark::State& state) { run(state, make()); })
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.15);
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::string type(name_of(dtype));
    add_one("copy_" + type, [=] { return copy(dtype, n); });
    add_one("add_" + type, [=] { return add(dtype, n); });
    add_one("silu_mul_" + type, [=] { return silu_mul(dtype, n); });
    add_one("rms_norm_576_" + type, [=] { return rms_norm(dtype, n, 576); });
    add_one("softmax_256_" + type, [=] { return softmax(dtype, n, 256); });
    add_one("softmax_4096_" + type, [=] { return softmax(dtype, n, 4096); });
    add_one("row_sum_576_" + type, [=] { return row_sum("sum", dtype, n, 576); });
    add_one("row_max_576_" + type, [=] { return row_sum("max", dtype, n, 576); });
  }
  add_one("mul_rows_of_32_f32", [=] { return narrow_rows(n); });
  add_one("column_sum_576_f32", [=] { return column_sum(n, 576); });
  for (const char* f : {"exp", "log", "tanh", "erf", "gelu", "gelu_tanh", "sigmoid", "sin", "rsqrt", "log1p", "atan"})
    add_one(std::string(f) + "_f32", [=] { return unary(f, DType::kF32, n); });
}

const int registered = (add_all("dram", 16 << 20), add_all("l2", 24 << 10), 0);

}  // namespace
