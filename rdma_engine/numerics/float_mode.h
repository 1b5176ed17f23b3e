// IeeeFloatMode: while it is in scope, this thread computes as IEEE-754 says: it keeps subnormals and rounds ties to
// even. The caller's thread may have other settings (XLA's own threads flush subnormals to zero), but every thread must
// give the same bits.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace jaxina::numerics {

#if defined(__x86_64__)

class IeeeFloatMode {
 public:
  IeeeFloatMode() : saved_(_mm_getcsr()) {
    // Writing the register costs more than the rest of a small block, and it is rarely necessary.
    if ((saved_ & kModes) != 0) _mm_setcsr(saved_ & ~kModes);
  }
  ~IeeeFloatMode() {
    if ((saved_ & kModes) != 0) _mm_setcsr(saved_);
  }
  IeeeFloatMode(const IeeeFloatMode&) = delete;
  IeeeFloatMode& operator=(const IeeeFloatMode&) = delete;

 private:
  static constexpr unsigned kModes = 0x8000 | 0x6000 | 0x0040;  // flush to zero, rounding, denormals are zero
  unsigned saved_;
};

#else

class IeeeFloatMode {
 public:
  IeeeFloatMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~IeeeFloatMode() { std::fesetenv(&saved_); }
  IeeeFloatMode(const IeeeFloatMode&) = delete;
  IeeeFloatMode& operator=(const IeeeFloatMode&) = delete;

 private:
  std::fenv_t saved_;
};

#endif

}  // namespace jaxina::numerics
