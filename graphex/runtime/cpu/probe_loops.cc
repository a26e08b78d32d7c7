#include "graphex/runtime/cpu/probe_loops.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define GX_TARGET(features) __attribute__((target(features)))
#else
#define GX_TARGET(features)
#endif
#define GX_INLINE inline __attribute__((always_inline))

namespace graphex::runtime {
namespace {

// Vectors stay local to each function: the bodies are inlined into functions of different targets.
typedef uint64_t Words __attribute__((vector_size(32)));
constexpr int kWordsPerUnit = kProbeUnit / sizeof(Words);

GX_INLINE uint64_t fold(const Words* sums, int count) {
  uint64_t result = 0;
  for (int i = 0; i < count; ++i) result ^= sums[i][0] ^ sums[i][1] ^ sums[i][2] ^ sums[i][3];
  return result;
}

template <int kPrefetchBytes>
GX_INLINE uint64_t read_one_stream(const char* data, size_t bytes) {
  Words sums[8] = {};
  for (size_t at = 0; at < bytes; at += sizeof(sums)) {
    const auto* words = reinterpret_cast<const Words*>(data + at);
    if constexpr (kPrefetchBytes > 0) {
      for (size_t line = 0; line < sizeof(sums); line += 64) __builtin_prefetch(data + at + kPrefetchBytes + line);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] ^= words[i];
  }
  return fold(sums, 8);
}

GX_INLINE uint64_t read_eight_streams(const char* data, size_t bytes) {
  const size_t part = bytes / 8 / kProbeUnit * kProbeUnit;
  Words sums[8] = {};
  for (size_t at = 0; at < part; at += 2 * sizeof(Words)) {
#pragma unroll
    for (int stream = 0; stream < 8; ++stream) {
      const auto* words = reinterpret_cast<const Words*>(data + stream * part + at);
      sums[stream] ^= words[0] ^ words[1];
    }
  }
  return fold(sums, 8) ^ read_one_stream<0>(data + 8 * part, bytes - 8 * part);
}

uint64_t read_one(const char* data, size_t bytes) { return read_one_stream<0>(data, bytes); }
uint64_t read_eight(const char* data, size_t bytes) { return read_eight_streams(data, bytes); }
uint64_t read_prefetch(const char* data, size_t bytes) { return read_one_stream<2048>(data, bytes); }

void copy_ordinary(char* to, const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kProbeUnit) {
    const auto* source = reinterpret_cast<const Words*>(from + at);
    auto* target = reinterpret_cast<Words*>(to + at);
    for (int i = 0; i < kWordsPerUnit; ++i) target[i] = source[i];
    asm volatile("" ::: "memory");  // or the compiler makes it one memcpy, which chooses its own stores
  }
}

GX_INLINE void copy_streaming(char* to, const char* from, size_t bytes) {
  const auto* source = reinterpret_cast<const Words*>(from);
  auto* target = reinterpret_cast<Words*>(to);
  for (size_t i = 0; i < bytes / sizeof(Words); ++i) __builtin_nontemporal_store(source[i], target + i);
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

void copy_non_temporal(char* to, const char* from, size_t bytes) { copy_streaming(to, from, bytes); }

// kChains independent accumulators, each step dependent on the one before: enough chains hide the latency, few enough
// stay in registers. The empty asm keeps the compiler from seeing through the steps.
#define GX_MULTIPLY_ADD_LOOP(Vector, kChains, step)                  \
  Vector sums[kChains];                                              \
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + 0.5f;       \
  Vector factor = Vector{} + 0.75f, addend = Vector{} + 0.125f;      \
  asm volatile("" : "+v"(factor), "+v"(addend));                     \
  for (int64_t iteration = 0; iteration < iterations; ++iteration) { \
    _Pragma("unroll") for (int i = 0; i < kChains; ++i) {            \
      step;                                                          \
      asm volatile("" : "+v"(sums[i]));                              \
    }                                                                \
  }

#if defined(__x86_64__)
GX_TARGET("avx2") uint64_t read_one_avx2(const char* data, size_t bytes) { return read_one_stream<0>(data, bytes); }
GX_TARGET("avx2") uint64_t read_eight_avx2(const char* data, size_t bytes) { return read_eight_streams(data, bytes); }
GX_TARGET("avx2") uint64_t read_prefetch_avx2(const char* data, size_t bytes) {
  return read_one_stream<2048>(data, bytes);
}
GX_TARGET("avx2") void copy_non_temporal_avx2(char* to, const char* from, size_t bytes) {
  copy_streaming(to, from, bytes);
}

void fp32_sse(int64_t iterations) { GX_MULTIPLY_ADD_LOOP(__m128, 12, sums[i] = sums[i] * factor + addend) }
template <int kChains>
GX_TARGET("avx2,fma")
void fp32_avx2(int64_t iterations) {
  GX_MULTIPLY_ADD_LOOP(__m256, kChains, sums[i] = _mm256_fmadd_ps(sums[i], factor, addend))
}
template <int kChains>
GX_TARGET("avx512f")
void fp32_avx512(int64_t iterations) {
  GX_MULTIPLY_ADD_LOOP(__m512, kChains, sums[i] = _mm512_fmadd_ps(sums[i], factor, addend))
}
template <int kChains>
GX_TARGET("avx512f,avx512bf16")
void bf16_avx512(int64_t iterations){
    GX_MULTIPLY_ADD_LOOP(__m512, kChains, sums[i] = _mm512_dpbf16_ps(sums[i], (__m512bh)factor, (__m512bh)addend))}

GX_TARGET("avx2") GX_INLINE __m256i pairs_of(__m256 sum, __m256 factor) {
  return _mm256_maddubs_epi16((__m256i)sum, (__m256i)factor);
}
GX_TARGET("avx2") GX_INLINE __m256 widened(__m256i pairs, __m256 addend) {
  return (__m256)_mm256_add_epi32((__m256i)addend, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
template <int kChains>
GX_TARGET("avx2")
void int8_avx2(int64_t iterations) {
  GX_MULTIPLY_ADD_LOOP(__m256, kChains, sums[i] = widened(pairs_of(sums[i], factor), addend))
}  // Eight sweeps over the chains in 16 bits, then one that widens; chain by chain each would wait for itself.
template <int kChains>
GX_TARGET("avx2")
void int4_avx2(int64_t iterations) {
  GX_MULTIPLY_ADD_LOOP(__m256, kChains,
                       sums[i] = iteration % 9 == 8
                                     ? widened((__m256i)sums[i], addend)
                                     : (__m256)_mm256_add_epi16((__m256i)addend, pairs_of(sums[i], factor)))
}
template <int kChains>
GX_TARGET("avx512f,avx512vnni")
void int8_avx512(int64_t iterations) {
  GX_MULTIPLY_ADD_LOOP(__m512, kChains,
                       sums[i] = (__m512)_mm512_dpbusd_epi32((__m512i)sums[i], (__m512i)factor, (__m512i)addend))
}
#endif

}  // namespace

#if defined(__x86_64__)

std::vector<ReadLoop> read_loops() {
  if (__builtin_cpu_supports("avx2")) {
    return {{"one stream", read_one_avx2}, {"eight streams", read_eight_avx2}, {"prefetch", read_prefetch_avx2}};
  }
  return {{"one stream", read_one}, {"eight streams", read_eight}, {"prefetch", read_prefetch}};
}

std::vector<CopyLoop> copy_loops() {
  auto* streaming = __builtin_cpu_supports("avx2") ? copy_non_temporal_avx2 : copy_non_temporal;
  return {{"ordinary", copy_ordinary}, {"non-temporal", streaming}};
}

std::vector<ArithmeticLoop> fp32_loops() {
  std::vector<ArithmeticLoop> loops = {{"sse x 12", 12 * 4 * 2, fp32_sse}};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    loops = {{"avx2 x 8", 8 * 8 * 2, fp32_avx2<8>},
             {"avx2 x 10", 10 * 8 * 2, fp32_avx2<10>},
             {"avx2 x 12", 12 * 8 * 2, fp32_avx2<12>}};
  }
  if (__builtin_cpu_supports("avx512f")) {
    loops.push_back({"avx512 x 10", 10 * 16 * 2, fp32_avx512<10>});
    loops.push_back({"avx512 x 24", 24 * 16 * 2, fp32_avx512<24>});
  }
  return loops;
}

std::vector<ArithmeticLoop> bf16_loops() {
  if (!__builtin_cpu_supports("avx512bf16")) return {};
  return {{"avx512 x 12", 12 * 32 * 2, bf16_avx512<12>}, {"avx512 x 24", 24 * 32 * 2, bf16_avx512<24>}};
}

std::vector<ArithmeticLoop> int8_loops() {
  std::vector<ArithmeticLoop> loops;
  if (__builtin_cpu_supports("avx2"))
    loops = {{"avx2 x 8", 8 * 32 * 2, int8_avx2<8>}, {"avx2 x 12", 12 * 32 * 2, int8_avx2<12>}};
  if (__builtin_cpu_supports("avx512vnni")) {
    loops.push_back({"avx512 x 12", 12 * 64 * 2, int8_avx512<12>});
    loops.push_back({"avx512 x 24", 24 * 64 * 2, int8_avx512<24>});
  }
  return loops;
}

std::vector<ArithmeticLoop> int4_loops() {
  std::vector<ArithmeticLoop> loops = int8_loops();  // what takes bytes takes these too
  if (__builtin_cpu_supports("avx2")) {
    loops.push_back({"avx2 pairs x 8", 8 * 32 * 2 * 8 / 9, int4_avx2<8>});
    loops.push_back({"avx2 pairs x 12", 12 * 32 * 2 * 8 / 9, int4_avx2<12>});
  }
  return loops;
}

#else

std::vector<ReadLoop> read_loops() {
  return {{"one stream", read_one}, {"eight streams", read_eight}, {"prefetch", read_prefetch}};
}
std::vector<CopyLoop> copy_loops() { return {{"ordinary", copy_ordinary}, {"non-temporal", copy_non_temporal}}; }
std::vector<ArithmeticLoop> fp32_loops() { return {}; }
std::vector<ArithmeticLoop> bf16_loops() { return {}; }
std::vector<ArithmeticLoop> int8_loops() { return {}; }
std::vector<ArithmeticLoop> int4_loops() { return {}; }

#endif

}  // namespace graphex::runtime
