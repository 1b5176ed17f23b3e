// Compiled with -mavx2; run only where the processor has it (codec.cc).
#include <immintrin.h>

#include "rdma_engine/numerics/kernel_templates.h"

namespace jaxina::numerics {
namespace {

struct Avx2Vector {
  static constexpr std::size_t kWidth = 8;
  using Words = __m256i;
  using Floats = __m256;
  using Mask = __m256i;  // all ones where true

  static Words load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static void store(void* to, Words words) { _mm256_storeu_si256(static_cast<__m256i*>(to), words); }
  static void stream(void* to, Words words) { _mm256_stream_si256(static_cast<__m256i*>(to), words); }
  static void end_streaming() { _mm_sfence(); }

  static Words fill(std::uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
  static Floats fill_float(float value) { return _mm256_set1_ps(value); }
  static Floats as_floats(Words a) { return _mm256_castsi256_ps(a); }
  static Words as_words(Floats a) { return _mm256_castps_si256(a); }

  static Words bit_and(Words a, Words b) { return _mm256_and_si256(a, b); }
  static Words add(Words a, Words b) { return _mm256_add_epi32(a, b); }
  static Words swap_bytes(Words a) {
    return _mm256_shuffle_epi8(a, _mm256_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203,  //
                                                    0x0c0d0e0f08090a0b, 0x0405060700010203));
  }
  static Words max_signed(Words a, Words b) { return _mm256_max_epi32(a, b); }
  static std::uint32_t largest_signed(Words a) {
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(1, 0, 3, 2)));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(2, 3, 0, 1)));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
  }
  static Words min_signed(Words a, Words b) { return _mm256_min_epi32(a, b); }
  static Mask equal(Words a, Words b) { return _mm256_cmpeq_epi32(a, b); }
  static Mask greater_signed(Words a, Words b) { return _mm256_cmpgt_epi32(a, b); }
  static Words select(Mask mask, Words a, Words b) { return _mm256_blendv_epi8(b, a, mask); }

  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Mask at_least(Floats a, Floats b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GE_OQ)); }
  static Floats to_floats(Words a) { return _mm256_cvtepi32_ps(a); }
  static Words to_integers(Floats a) { return _mm256_cvtps_epi32(a); }
};

}  // namespace

constinit const Kernels kAvx2Kernels = kernels_over<Avx2Vector>();

}  // namespace jaxina::numerics
