// The calling thread's floating-point mode (rounding, denormals to zero): carried to workers and put back afterwards.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace graphex::runtime {

class FloatMode {
 public:
#if defined(__x86_64__)
  static FloatMode current() { return FloatMode(_mm_getcsr()); }
  void apply() const { _mm_setcsr(bits_); }

 private:
  explicit FloatMode(unsigned bits) : bits_(bits) {}
  unsigned bits_;
#else
  static FloatMode current() {
    FloatMode mode;
    std::fegetenv(&mode.bits_);
    return mode;
  }
  void apply() const { std::fesetenv(&bits_); }

 private:
  FloatMode() = default;
  std::fenv_t bits_;
#endif
};

// Applies a mode for a scope.
class ScopedFloatMode {
 public:
  explicit ScopedFloatMode(FloatMode mode) : saved_(FloatMode::current()) { mode.apply(); }
  ~ScopedFloatMode() { saved_.apply(); }
  ScopedFloatMode(const ScopedFloatMode&) = delete;
  ScopedFloatMode& operator=(const ScopedFloatMode&) = delete;

 private:
  FloatMode saved_;
};

}  // namespace graphex::runtime
