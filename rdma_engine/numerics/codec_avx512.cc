// Kernels for AVX-512. Compiled with -mavx512f -mavx512bw -mavx512vl -mavx512dq; codec.cc selects them only if the
// processor has all of these.
#include <immintrin.h>

#include "rdma_engine/numerics/kernel_templates.h"

namespace jaxina::numerics {
namespace {

struct Avx512Vector {
  static constexpr std::size_t kWidth = 16;
  using Words = __m512i;
  using Floats = __m512;
  using Mask = __mmask16;

  static Words load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(void* to, Words words) { _mm512_storeu_si512(to, words); }

  static Words load_float(const float* from) { return load(from); }
  static Words load_float(const Float16* from) { return _mm512_castps_si512(_mm512_cvtph_ps(load_half(from))); }
  static Words load_float(const Bfloat16* from) {
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(from)), 16);
  }
  static void store_float(float* to, Words words) { store(to, words); }
  template <class Narrow>
  static void store_float(Narrow* to, Words words) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrowed(words, to));
  }
  static void stream_float(float* to, Words words) { _mm512_stream_si512(reinterpret_cast<__m512i*>(to), words); }
  template <class Narrow>
  static void stream_float(Narrow* to, Words words) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), narrowed(words, to));
  }
  static void end_streaming() { _mm_sfence(); }

  static Words fill(std::uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
  static Floats fill_float(float value) { return _mm512_set1_ps(value); }
  static Floats as_floats(Words a) { return _mm512_castsi512_ps(a); }
  static Words as_words(Floats a) { return _mm512_castps_si512(a); }

  static Words bit_and(Words a, Words b) { return _mm512_and_si512(a, b); }
  static Words add(Words a, Words b) { return _mm512_add_epi32(a, b); }
  static Words subtract(Words a, Words b) { return _mm512_sub_epi32(a, b); }
  static Words shift_right_signed(Words a, std::uint32_t bits) {
    return _mm512_sra_epi32(a, _mm_cvtsi32_si128(static_cast<int>(bits)));
  }
  static Words swap_bytes(Words a) {
    return _mm512_shuffle_epi8(a, _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203));
  }
  static Words max_signed(Words a, Words b) { return _mm512_max_epi32(a, b); }
  static std::uint32_t largest_signed(Words a) { return static_cast<std::uint32_t>(_mm512_reduce_max_epi32(a)); }
  static std::uint32_t sum(Words a) { return static_cast<std::uint32_t>(_mm512_reduce_add_epi32(a)); }
  static Words min_signed(Words a, Words b) { return _mm512_min_epi32(a, b); }
  static Mask equal(Words a, Words b) { return _mm512_cmpeq_epi32_mask(a, b); }
  static Mask zero_where_nonzero(Words a, Words b) {
    return _mm512_mask_testn_epi32_mask(_mm512_test_epi32_mask(b, fill(0x7fffffff)), a, a);
  }
  static Words count(Words total, Mask mask) { return _mm512_mask_add_epi32(total, mask, total, fill(1)); }
  static Mask greater_signed(Words a, Words b) { return _mm512_cmpgt_epi32_mask(a, b); }
  static Words select(Mask mask, Words a, Words b) { return _mm512_mask_blend_epi32(mask, b, a); }

  static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats subtract_floats(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static Mask at_least(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
  static Floats to_floats(Words a) { return _mm512_cvtepi32_ps(a); }
  static Words to_integers(Floats a) { return _mm512_cvtps_epi32(a); }
  static Words truncated(Floats a) { return _mm512_cvttps_epu32(a); }

  static Words random_words(std::uint64_t seed, std::uint64_t index) {
    const __m256i first = eight_random_words(seed_from(seed, index));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), eight_random_words(seed_from(seed, index + 8)), 1);
  }

 private:
  static __m512i of_64(std::uint64_t value) { return _mm512_set1_epi64(static_cast<long long>(value)); }
  static __m256i eight_random_words(std::uint64_t seed) {
    const __m512i lanes = _mm512_set_epi64(8, 7, 6, 5, 4, 3, 2, 1);
    __m512i z = _mm512_add_epi64(of_64(seed), _mm512_mullo_epi64(lanes, of_64(kSplitMixStep)));
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 30)), of_64(kSplitMixFirst));
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 27)), of_64(kSplitMixSecond));
    return _mm512_cvtepi64_epi32(_mm512_srli_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 31)), 32));
  }
  static __m256i load_half(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static __m256i narrowed(Words bits, const Float16*) {
    return _mm512_cvtps_ph(as_floats(bits), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // Same rounding as in narrow_float.h.
  static __m256i narrowed(Words bits, const Bfloat16*) {
    const Words odd = bit_and(_mm512_srli_epi32(bits, 16), fill(1));
    const Words rounded = add(add(bits, fill(0x7fff)), odd);
    const Mask is_nan = greater_signed(bit_and(bits, fill(0x7fffffff)), fill(0x7f800000));
    const Words quiet = _mm512_or_si512(bits, fill(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(select(is_nan, quiet, rounded), 16));
  }
};

}  // namespace

constinit const Kernels kAvx512Kernels = kernels_over<Avx512Vector>();

}  // namespace jaxina::numerics
