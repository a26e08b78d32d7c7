// What every kernel test needs: kernels compiled for each level that this host has, operands that end at a guard page,
// and runs that split the tiles over several workers.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graphex/base/kernel_abi.h"
#include "graphex/codegen/compiler.h"

namespace graphex::test {

inline std::vector<codegen::Isa> host_levels() {
  std::vector<codegen::Isa> levels;
  for (codegen::Isa isa : codegen::kIsas)
    if (isa <= codegen::host_isa()) levels.push_back(isa);
  return levels;
}

// Whether two ranges of one type hold the same bits.
template <class A, class B>
bool same_bits(const A& a, const B& b) {
  return std::size(a) == std::size(b) &&
         (std::size(a) == 0 || std::memcmp(std::data(a), std::data(b), std::size(a) * sizeof *std::data(a)) == 0);
}

// One compiler per level, for the life of the process; equal requests share a kernel.
inline std::vector<codegen::Kernel> compile_kernels(codegen::Isa isa,
                                                    const std::vector<codegen::KernelRequest>& requests) {
  static std::map<codegen::Isa, std::unique_ptr<codegen::KernelCompiler>> compilers;
  auto& compiler = compilers[isa];
  if (!compiler) {
    codegen::CompilerOptions options;
    options.isa = isa;
    options.use_cache = false;
    compiler = std::make_unique<codegen::KernelCompiler>(options);
  }
  return compiler->compile(requests);
}

inline codegen::Kernel compile_kernel(codegen::Isa isa, const codegen::HandKernel& request) {
  return compile_kernels(isa, {request})[0];
}

// `count` elements whose last byte is the last before an inaccessible page, so that reading past the end faults.
template <typename T>
class Guarded {
 public:
  explicit Guarded(size_t count, T value = T{}) : count_(count) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (count * sizeof(T) + page - 1) / page * page;
    base_ =
        static_cast<char*>(mmap(nullptr, bytes_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + bytes_, page, PROT_NONE), 0);
    bytes_ += page;
    data_ = reinterpret_cast<T*>(base_ + bytes_ - page - count * sizeof(T));
    for (size_t i = 0; i < count; ++i) data_[i] = value;
  }
  ~Guarded() { munmap(base_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }

 private:
  size_t count_, bytes_;
  char* base_;
  T* data_;
};

// Runs all tiles, cut into `workers` contiguous shares that run one after the other, each with its own scratch. A share
// is done in two pieces where the kernel allows that.
inline GxStatus run_kernel(const codegen::Kernel& kernel, const std::vector<void*>& pointers,
                           const std::vector<int64_t>& sizes, int workers = 1) {
  GxStatus status = {};
  const int64_t tiles = kernel.tiles(sizes.data());
  for (int w = 0; w < workers; ++w) {
    static std::unique_ptr<char[]> memory(new char[GX_SCRATCH_BYTES + 64]);
    void* scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
    std::memset(scratch, 0xff, GX_SCRATCH_BYTES);
    GxWorker worker = {scratch, &status, w, workers, 0};
    const int64_t begin = tiles * w / workers, end = tiles * (w + 1) / workers;
    const int64_t cut = kernel.divisible && kernel.divisible(sizes.data()) ? end - (end - begin) / 4 : end;
    if (begin < cut) kernel.run(pointers.data(), sizes.data(), begin, cut, &worker);
    ++worker.piece;
    if (cut < end) kernel.run(pointers.data(), sizes.data(), cut, end, &worker);
  }
  return status;
}

// ---- 16-bit floats, by value ----

inline uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float from_bf16(uint16_t h) {
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  BF16(double x) : bits(to_bf16(static_cast<float>(x))) {}
  operator double() const { return from_bf16(bits); }
};
struct F16 {
  _Float16 value = 0;
  F16() = default;
  F16(double x) : value(static_cast<_Float16>(x)) {}
  operator double() const { return static_cast<double>(value); }
};

// Half the distance between 1 and the next number: the relative error of one rounding.
template <typename T>
constexpr double unit_roundoff() {
  return sizeof(T) == 4 ? 0x1p-24 : std::is_same_v<T, F16> ? 0x1p-11 : 0x1p-8;
}

}  // namespace graphex::test
