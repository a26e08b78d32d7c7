// Attention beside this machine's limits: `attention_kernel [workers] [trials]`.
//
// Decode reads caches that together exceed 8 x L3 in turn, so that keys and values come from memory, with a barrier
// after each launch as in a replay; its floor is their bytes over the read rate. Prefill's floor is the operations of
// the causal half over the peak of fp32. Trials alternate with the probes and both keep their best.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "graphex/base/dtype.h"
#include "graphex/codegen/compiler.h"
#include "graphex/kernels/attention/attention.h"
#include "graphex/runtime/cpu/probe.h"

namespace graphex {
namespace {

using namespace kernels;
constexpr size_t kColdBytes = size_t(320) << 20;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Shape {
  int64_t query_heads, kv_heads, queries, keys, dim;
};

std::vector<int64_t> sizes_of(const Shape& s) {
  std::vector<int64_t> sizes(kAttentionSizes);
  const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
  sizes[kBatch] = 1, sizes[kQueryHeads] = s.query_heads, sizes[kKvHeads] = s.kv_heads, sizes[kQueries] = s.queries;
  sizes[kKeys] = s.keys, sizes[kHeadDim] = sizes[kValueDim] = s.dim;
  std::memcpy(&sizes[kScale], &scale, sizeof scale);
  for (const int at : {kOutStrideH, kQueryStrideH}) sizes[at] = s.queries * s.dim, sizes[at + 1] = s.dim;
  for (const int at : {kKeyStrideH, kValueStrideH}) sizes[at] = s.keys * s.dim, sizes[at + 1] = s.dim;
  sizes[kBoundStrideI] = 1;
  return sizes;
}

class Bench {
 public:
  Bench(int workers, int trials)
      : workers_(workers), trials_(trials), team_(runtime::make_own_team(workers)), probe_(*team_, workers) {}

  void row(DType dtype, const Shape& s) {
    const int64_t element = size_of(dtype), cache = s.kv_heads * s.keys * s.dim * element;
    const int64_t copies = std::max<int64_t>(1, s.queries > 8 ? 1 : static_cast<int64_t>(kColdBytes) / (2 * cache));
    std::vector<uint32_t> cold(copies * 2 * cache / 4, dtype == DType::kF32 ? 0x3dcccccd : 0x3dcc3dcc);
    std::vector<uint32_t> query(s.query_heads * s.queries * s.dim * element / 4, cold[0]), out(query.size());
    std::vector<int64_t> bound(s.queries);
    for (int64_t i = 0; i < s.queries; ++i) bound[i] = s.keys - s.queries + i;
    const std::vector<int64_t> sizes = sizes_of(s);
    const auto kernels = compile(dtype, s.dim);
    std::vector<char> workspace(kernels[0].workspace(sizes.data()) + 64);
    int64_t copy = 0;
    double best = 1e9, read = 0, peak = 0;
    for (int trial = 0; trial < trials_; ++trial) {
      read = std::max(read, s.queries > 8 ? 0 : probe_.read(0.1).per_second);
      peak = std::max(peak, runtime::probe_fp32(*team_, workers_, 0.05).per_second);
      for (int64_t i = 0; i < std::max<int64_t>(copies, 3); ++i, ++copy) {
        char* keys = reinterpret_cast<char*>(cold.data()) + copy % copies * 2 * cache;
        void* pointers[] = {out.data(),   query.data(), keys,    keys + cache,    nullptr,
                            bound.data(), nullptr,      nullptr, workspace.data()};
        best = std::min(best, launch(kernels, pointers, sizes));
      }
    }
    const double seen = s.queries > 8 ? static_cast<double>(s.queries + 1) / 2 * s.queries : s.queries * s.keys;
    const double flops = 4.0 * s.query_heads * seen * s.dim;
    const double floor = std::max(flops / peak, read > 0 ? 2.0 * cache / read : 0);
    std::printf(
        "%-5s %3ld/%-3ld heads %5ld queries %6ld keys x %3ld %10.1f us %6.1f GB/s of %5.1f %7.1f GFLOP/s of %6.1f"
        "   share of floor %5.1f %%\n",
        std::string(name_of(dtype)).c_str(), static_cast<long>(s.query_heads), static_cast<long>(s.kv_heads),
        static_cast<long>(s.queries), static_cast<long>(s.keys), static_cast<long>(s.dim), best * 1e6,
        2.0 * cache / best * 1e-9, read * 1e-9, flops / best * 1e-9, peak * 1e-9, 100 * floor / best);
    std::fflush(stdout);
  }

 private:
  std::vector<codegen::Kernel> compile(DType dtype, int64_t dim) {
    const std::string name(name_of(dtype)), module = "attention_" + name;
    const std::vector<std::pair<std::string, int64_t>> knobs = {{"GX_MASK", kMaskBound}, {"GX_MASK_F32", 0},
                                                                {"GX_LSE", 0},           {"GX_HEAD_DIM", dim},
                                                                {"GX_VALUE_DIM", dim},   {"GX_BLOCK_SIZE", 0}};
    const codegen::KernelRequest requests[] = {codegen::HandKernel{module, "gx_attention_partial_" + name, knobs},
                                               codegen::HandKernel{module, "gx_attention_merge_" + name, knobs},
                                               codegen::HandKernel{module, "gx_attention_" + name, knobs}};
    return compiler_.compile(requests);
  }

  double launch(const std::vector<codegen::Kernel>& kernels, void* const* pointers, const std::vector<int64_t>& sizes) {
    const double start = now();
    team_->run(workers_, [&](GxWorker& w) {
      for (const codegen::Kernel& kernel : kernels) {
        const int64_t tiles = kernel.tiles(sizes.data());
        if (tiles == 0) continue;
        const int64_t begin = tiles * w.id / w.count, end = tiles * (w.id + 1) / w.count;
        if (begin < end) kernel.run(pointers, sizes.data(), begin, end, &w);
        team_->barrier().wait(w);
      }
    });
    return now() - start;
  }

  int workers_, trials_;
  std::unique_ptr<runtime::Team> team_;
  runtime::MemoryProbe probe_;
  codegen::KernelCompiler compiler_;
};

}  // namespace
}  // namespace graphex

int main(int argc, char** argv) {
  using graphex::DType;
  graphex::Bench bench(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 5);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    bench.row(dtype, {9, 3, 1, 1024, 64});
    bench.row(dtype, {9, 3, 1, 8192, 64});
    bench.row(dtype, {9, 3, 1, 32768, 64});
    bench.row(dtype, {32, 8, 1, 8192, 128});
    bench.row(dtype, {32, 8, 1, 32768, 128});
    bench.row(dtype, {9, 3, 256, 256, 64});
    bench.row(dtype, {9, 3, 2048, 2048, 64});
    bench.row(dtype, {8, 2, 2048, 2048, 128});
  }
  return 0;
}
