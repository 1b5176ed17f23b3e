// Kernels for AVX2. Compiled with -mavx2 -mf16c; codec.cc selects them only if the processor has both.
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

  static Words load_float(const float* from) { return load(from); }
  static Words load_float(const Float16* from) { return _mm256_castps_si256(_mm256_cvtph_ps(load_half(from))); }
  static Words load_float(const Bfloat16* from) {
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(from)), 16);
  }
  static void store_float(float* to, Words words) { store(to, words); }
  template <class Narrow>
  static void store_float(Narrow* to, Words words) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrowed(words, to));
  }
  static void stream_float(float* to, Words words) { _mm256_stream_si256(reinterpret_cast<__m256i*>(to), words); }
  template <class Narrow>
  static void stream_float(Narrow* to, Words words) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), narrowed(words, to));
  }
  static void end_streaming() { _mm_sfence(); }

  static Words fill(std::uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
  static Floats fill_float(float value) { return _mm256_set1_ps(value); }
  static Floats as_floats(Words a) { return _mm256_castsi256_ps(a); }
  static Words as_words(Floats a) { return _mm256_castps_si256(a); }

  static Words bit_and(Words a, Words b) { return _mm256_and_si256(a, b); }
  static Words add(Words a, Words b) { return _mm256_add_epi32(a, b); }
  static Words subtract(Words a, Words b) { return _mm256_sub_epi32(a, b); }
  static Words shift_right_signed(Words a, std::uint32_t bits) {
    return _mm256_sra_epi32(a, _mm_cvtsi32_si128(static_cast<int>(bits)));
  }
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
  static std::uint32_t sum(Words a) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(1, 0, 3, 2)));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(2, 3, 0, 1)));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
  }
  static Words min_signed(Words a, Words b) { return _mm256_min_epi32(a, b); }
  static Mask equal(Words a, Words b) { return _mm256_cmpeq_epi32(a, b); }
  static Mask zero_where_nonzero(Words a, Words b) {
    return _mm256_andnot_si256(equal(_mm256_slli_epi32(b, 1), fill(0)), equal(a, fill(0)));
  }
  static Words count(Words total, Mask mask) { return _mm256_sub_epi32(total, mask); }
  static Mask greater_signed(Words a, Words b) { return _mm256_cmpgt_epi32(a, b); }
  static Words select(Mask mask, Words a, Words b) { return _mm256_blendv_epi8(b, a, mask); }

  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats subtract_floats(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  static Mask at_least(Floats a, Floats b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GE_OQ)); }
  static Floats to_floats(Words a) { return _mm256_cvtepi32_ps(a); }
  static Words to_integers(Floats a) { return _mm256_cvtps_epi32(a); }
  static Words truncated(Floats a) {
    const Floats half = fill_float(0x1p31f);  // from here on, the conversion to signed integers fails
    const Floats upper = _mm256_cmp_ps(a, half, _CMP_GE_OQ);
    const Words lower_bits = _mm256_cvttps_epi32(_mm256_sub_ps(a, _mm256_and_ps(upper, half)));
    return add(lower_bits, _mm256_slli_epi32(as_words(upper), 31));
  }

  static Words random_words(std::uint64_t seed, std::uint64_t index) {
    const __m256 first = _mm256_castsi256_ps(four_random_numbers(seed_from(seed, index)));
    const __m256 second = _mm256_castsi256_ps(four_random_numbers(seed_from(seed, index + 4)));
    const __m256 upper_halves = _mm256_shuffle_ps(first, second, _MM_SHUFFLE(3, 1, 3, 1));
    return _mm256_permute4x64_epi64(_mm256_castps_si256(upper_halves), _MM_SHUFFLE(3, 1, 2, 0));
  }

 private:
  static __m256i of_64(std::uint64_t value) { return _mm256_set1_epi64x(static_cast<long long>(value)); }
  static __m256i multiply_64(__m256i a, std::uint64_t b) {
    const __m256i low = of_64(b), high = of_64(b >> 32);
    const __m256i middle = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), low), _mm256_mul_epu32(a, high));
    return _mm256_add_epi64(_mm256_mul_epu32(a, low), _mm256_slli_epi64(middle, 32));
  }
  static __m256i four_random_numbers(std::uint64_t seed) {
    __m256i z = _mm256_add_epi64(of_64(seed), multiply_64(_mm256_set_epi64x(4, 3, 2, 1), kSplitMixStep));
    z = multiply_64(_mm256_xor_si256(z, _mm256_srli_epi64(z, 30)), kSplitMixFirst);
    z = multiply_64(_mm256_xor_si256(z, _mm256_srli_epi64(z, 27)), kSplitMixSecond);
    return _mm256_xor_si256(z, _mm256_srli_epi64(z, 31));
  }
  static __m128i load_half(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  static __m128i narrowed(Words bits, const Float16*) {
    return _mm256_cvtps_ph(as_floats(bits), _MM_FROUND_TO_NEAREST_INT);
  }
  // Same rounding as in narrow_float.h.
  static __m128i narrowed(Words bits, const Bfloat16*) {
    const Words odd = bit_and(_mm256_srli_epi32(bits, 16), fill(1));
    const Words rounded = add(add(bits, fill(0x7fff)), odd);
    const Mask is_nan = greater_signed(bit_and(bits, fill(0x7fffffff)), fill(0x7f800000));
    const Words quiet = _mm256_or_si256(bits, fill(0x400000));
    const Words high = _mm256_srli_epi32(select(is_nan, quiet, rounded), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  }
};

}  // namespace

constinit const Kernels kAvx2Kernels = kernels_over<Avx2Vector>();

}  // namespace jaxina::numerics
