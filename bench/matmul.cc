// The matmul family beside this machine's limits: `matmul [workers] [seconds a row] [type] [M] [warm]`.
//
// Each row runs through copies of the weights that together exceed 8 x L3, so they come from memory, one launch and one
// barrier after another as in a replay. Trials alternate with the limit they are held against (the read loops, or the
// widest register tile on operands in L1) and both keep their best: on a shared machine the limit itself moves. "warm"
// runs one copy only, which shows what is left of the time when memory isn't in the way.
#include "graphex/kernels/matmul/matmul.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "graphex/base/dtype.h"
#include "graphex/codegen/compiler.h"
#include "graphex/runtime/team.h"

namespace graphex {
namespace {

using kernels::kMatmulSizes;
constexpr int64_t kColdBytes = int64_t(320) << 20;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Memory {
  explicit Memory(int64_t bytes) : size(bytes) {
    data = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (int64_t i = 0; i < bytes; i += 4) {
      const float value = 0.5f + static_cast<float>(i % 1000) * 0x1p-12f;  // also sane as two bf16 or f16
      std::memcpy(data + i, &value, 4);
    }
  }
  ~Memory() { munmap(data, size); }
  char* data;
  int64_t size;
};

__attribute__((target("avx2"))) float read_range(const char* from, int64_t bytes, int streams, bool prefetch) {
  using Vector = float __attribute__((vector_size(32)));
  Vector sums[8] = {};
  const int64_t step = bytes / streams / 256 * 256;
  for (int64_t at = 0; at < step; at += 256)
    for (int s = 0; s < streams; ++s) {
      const char* line = from + s * step + at;
      if (prefetch)
        for (int i = 0; i < 256; i += 64) __builtin_prefetch(line + i + 2048);
      for (int i = 0; i < 8; ++i) {
        Vector value;
        std::memcpy(&value, line + 32 * i, 32);
        sums[i] += value;
      }
    }
  Vector total = {};
  for (Vector sum : sums) total += sum;
  return total[0] + total[7];
}

// 3 x 4 vectors of AVX2 multiply-adds on 4 KiB: flops in one call.
__attribute__((target("avx2,fma"))) double tile_loop(const float* a) {
  using Vector = float __attribute__((vector_size(32)));
  Vector sums[12] = {};
  for (int repeat = 0; repeat < 400; ++repeat)
    for (int k = 0; k < 256; k += 8) {
      Vector x[3], y;
      for (int r = 0; r < 3; ++r) std::memcpy(&x[r], a + k + 256 * r, 32);
      for (int c = 0; c < 4; ++c) {
        std::memcpy(&y, a + k + 256 * (3 + c), 32);
        for (int r = 0; r < 3; ++r) sums[3 * c + r] = __builtin_elementwise_fma(x[r], y, sums[3 * c + r]);
      }
    }
  Vector total = {};
  for (Vector sum : sums) total += sum;
  const_cast<volatile float&>(a[256 * 7]) = total[0];
  return 400.0 * 32 * 12 * 8 * 2;
}

class Bench {
 public:
  Bench(int workers, double seconds, bool warm)
      : workers_(workers),
        seconds_(seconds),
        warm_(warm),
        team_(runtime::make_own_team(workers)),
        cold_(kColdBytes + (1 << 20)) {}

  double read_trial() {
    double best = 0;
    for (int loop = 0; loop < 4; ++loop) {
      const int64_t part = kColdBytes / 4 / workers_, offset = kColdBytes / 4 * (trial_++ % 4);
      const double start = now();
      team_->run(workers_, [&](GxWorker& w) {
        sink_ = read_range(cold_.data + offset + w.id * part, part, loop == 1 ? 8 : loop == 2 ? 4 : 1, loop == 3);
      });
      best = std::max(best, static_cast<double>(part * workers_) / (now() - start));
    }
    return best;
  }

  double peak_trial() {
    double flops[64];
    const double start = now();
    team_->run(workers_, [&](GxWorker& w) {
      flops[w.id] = 0;
      for (int i = 0; i < 20; ++i) flops[w.id] += tile_loop(reinterpret_cast<const float*>(cold_.data + w.id * 65536));
    });
    double total = 0;
    for (int i = 0; i < workers_; ++i) total += flops[i];
    return total / (now() - start);
  }

  void row(DType dtype, int64_t m, int64_t n, int64_t k, int b_layout) {
    const std::string name = "matmul_" + std::string(name_of(dtype));
    const codegen::KernelRequest requests[] = {codegen::HandKernel{
        name,
        "gx_" + name,
        {{"GX_A_LAYOUT", 0}, {"GX_B_LAYOUT", b_layout}, {"GX_EPILOGUE", 0}, {"GX_M", m == 1 ? 1 : -1}}}};
    const codegen::Kernel kernel = compiler_.compile(requests)[0];
    const int64_t element = size_of(dtype), weight = n * k * element;
    const int64_t copies = warm_ ? 1 : std::max<int64_t>(1, kColdBytes / weight),
                  launches = std::clamp<int64_t>(int64_t(24e6) / weight, 1, kColdBytes / weight);
    Memory a(m * k * element), c(m * n * element);
    const int64_t sizes[kMatmulSizes] = {1, m, n, k, 0, k, 1, 0, b_layout == 0 ? 1 : n, b_layout == 0 ? k : 1, 0, n};
    const int64_t tiles = kernel.tiles(sizes);
    int64_t copy = 0;
    const auto trial = [&] {
      const double start = now();
      team_->run(workers_, [&](GxWorker& w) {
        for (int64_t i = 0; i < launches; ++i) {
          void* pointers[] = {c.data, a.data, cold_.data + (copy + i) % copies * weight, nullptr};
          const int64_t begin = tiles * w.id / w.count, end = tiles * (w.id + 1) / w.count;
          if (begin < end) kernel.run(pointers, sizes, begin, end, &w);
          team_->barrier().wait(w);
        }
      });
      copy += launches;
      return (now() - start) / static_cast<double>(launches);
    };
    double best = 1e9, read = 0, peak = 0;
    for (const double end = now() + seconds_; now() < end;) {
      best = std::min(best, trial());
      read = std::max(read, read_trial());
      best = std::min(best, trial());
      peak = std::max(peak, peak_trial());
    }
    const double flops = 2.0 * static_cast<double>(m * n * k),
                 floor = std::max(static_cast<double>(weight) / read, flops / peak);
    std::printf(
        "%-5s %s %5ld %6ld %6ld %10.1f us %7.1f GB/s of %5.1f %8.1f GFLOP/s of %6.1f   share of floor %5.1f %%\n",
        std::string(name_of(dtype)).c_str(), b_layout == 0 ? "NT" : "NN", static_cast<long>(m), static_cast<long>(n),
        static_cast<long>(k), best * 1e6, static_cast<double>(weight) / best * 1e-9, read * 1e-9, flops / best * 1e-9,
        peak * 1e-9, 100 * floor / best);
    std::fflush(stdout);
  }

 private:
  int workers_;
  double seconds_;
  bool warm_;
  std::unique_ptr<runtime::Team> team_;
  codegen::KernelCompiler compiler_;
  Memory cold_;
  int64_t trial_ = 0;
  volatile float sink_ = 0;
};

}  // namespace
}  // namespace graphex

int main(int argc, char** argv) {
  using graphex::DType;
  const int workers = argc > 1 ? std::atoi(argv[1]) : 2;
  graphex::Bench bench(workers, argc > 2 ? std::atof(argv[2]) : 1.0, argc > 5 && argv[5] == std::string("warm"));
  const std::string only_type = argc > 3 ? argv[3] : "", only_m = argc > 4 ? argv[4] : "";
  const int64_t shapes[][2] = {{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}, {4096, 4096}};
  std::printf("%d workers\ntype  B      M      N      K\n", workers);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (only_type != "" && name_of(dtype) != only_type) continue;
    for (const int64_t m : {1, 4, 8, 256}) {
      if (only_m != "" && std::to_string(m) != only_m) continue;
      for (const auto& [n, k] : shapes) bench.row(dtype, m, n, k, 0);
      bench.row(dtype, m, 2304, 768, 1);
    }
  }
  return 0;
}
