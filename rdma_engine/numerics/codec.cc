#include "rdma_engine/numerics/codec.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/float_mode.h"
#include "rdma_engine/numerics/kernels.h"

namespace jaxina::numerics {
namespace {

constexpr int kMantissaBits = 23;

// One instruction set's kernels behind the Codec interface. The common steps are here: scale factors and the
// floating-point mode. This file is compiled for every processor.
template <const Kernels& kernels, FloatKernels Kernels::* type, std::size_t element_bytes>
struct FloatVariant {
  static std::uint8_t exponent(const void* x, std::size_t count) {
    const IeeeFloatMode mode;
    return static_cast<std::uint8_t>((kernels.*type).max_magnitude(x, count) >> kMantissaBits);
  }
  static std::uint8_t finite_exponent(const void* x, std::size_t count) {
    const IeeeFloatMode mode;
    return static_cast<std::uint8_t>((kernels.*type).max_finite_magnitude(x, count) >> kMantissaBits);
  }
  static std::size_t quantize(const void* x, std::size_t count, std::uint8_t exponent, Scale scale, Store store,
                              std::uint32_t* dst) {
    const IeeeFloatMode mode;
    return (kernels.*type).quantize(x, count, split_power(scale_exponent(exponent, scale)), scale.limit, store, dst);
  }
  static void quantize_at_random(const void* x, std::size_t count, std::uint8_t exponent, Scale scale,
                                 std::uint64_t seed, bool add, std::uint32_t* dst) {
    const IeeeFloatMode mode;
    (kernels.*type)
        .quantize_at_random(x, count, split_power(scale_exponent(exponent, scale)), scale.limit, seed, add, dst);
  }
  static void dequantize(const std::uint32_t* sum, std::size_t count, std::uint8_t exponent, Scale scale, Order order,
                         bool keep_non_finite, void* y) {
    const IeeeFloatMode mode;
    (kernels.*type).dequantize(sum, count, split_power(-scale_exponent(exponent, scale)), order, keep_non_finite, y);
  }
  static void dequantize_streaming(const std::uint32_t* sum, std::size_t count, std::uint8_t exponent, Scale scale,
                                   Order order, void* y) {
    const IeeeFloatMode mode;
    (kernels.*type).dequantize_streaming(sum, count, split_power(-scale_exponent(exponent, scale)), order, y);
  }
  static std::size_t exchange(const Exchange& step, Scale encode, Scale decode) {
    const IeeeFloatMode mode;
    std::size_t rounded_to_zero = 0;
    for (std::size_t i = 0; i < step.blocks; ++i) {
      const std::size_t first = i * step.block_size, byte = first * element_bytes;
      const BlockExchanged found =
          (kernels.*type)
              .exchange({step.block_size, static_cast<const std::byte*>(step.ahead) + byte,
                         static_cast<const std::byte*>(step.x) + byte,
                         split_power(scale_exponent(step.x_exponents[i], encode)), encode.limit, step.store,
                         step.words + first, step.sum + first, step.shift,
                         split_power(-scale_exponent(step.sum_exponents[i], decode)), step.streaming,
                         static_cast<std::byte*>(step.y) + byte});
      const auto exponent = static_cast<std::uint8_t>(found.largest >> kMantissaBits);
      std::uint8_t& merged = step.ahead_exponents[i];
      merged = step.merge_exponents ? std::max(merged, exponent) : exponent;
      rounded_to_zero += found.rounded_to_zero;
    }
    return rounded_to_zero;
  }
  static void non_finite_flags(const void* x, std::size_t count, Store store, std::uint32_t* dst) {
    const IeeeFloatMode mode;
    (kernels.*type).non_finite_flags(x, count, store, dst);
  }
  static void apply_non_finite_flags(const std::uint32_t* sum, std::size_t count, Order order, bool clear, void* y) {
    const IeeeFloatMode mode;
    (kernels.*type).apply_non_finite_flags(sum, count, order, clear, y);
  }
  static constexpr FloatCodec codec() {
    return {exponent,           finite_exponent,  quantize,
            quantize_at_random, dequantize,       dequantize_streaming,
            exchange,           non_finite_flags, apply_non_finite_flags};
  }
};

template <const Kernels& kernels>
struct Variant {
  static void encode_int32(const std::uint32_t* x, std::size_t count, Store store, std::uint32_t* dst) {
    kernels.move_words(x, count, store == Store::kBigEndian ? Order::kBigEndian : Order::kHost, store == Store::kAdd,
                       dst);
  }
  static void decode_int32(const std::uint32_t* sum, std::size_t count, Order order, std::uint32_t* y) {
    kernels.move_words(sum, count, order, false, y);
  }
  static void add_big_endian(const std::uint32_t* packet, std::size_t count, std::uint32_t* slot) {
    kernels.move_words(packet, count, Order::kBigEndian, true, slot);
  }
  static void load_big_endian(const std::uint32_t* packet, std::size_t count, std::uint32_t* slot) {
    kernels.move_words(packet, count, Order::kBigEndian, false, slot);
  }
  static Codec named(std::string_view name) {
    return {name,
            FloatVariant<kernels, &Kernels::float32, 4>::codec(),
            FloatVariant<kernels, &Kernels::float16, 2>::codec(),
            FloatVariant<kernels, &Kernels::bfloat16, 2>::codec(),
            kernels.end_streaming,
            encode_int32,
            decode_int32,
            add_big_endian,
            load_big_endian,
            kernels.pack,
            kernels.unpack,
            kernels.shift};
  }
};

const Codec* scalar_codec() {
  static const Codec codec = Variant<kScalarKernels>::named("scalar");
  return &codec;
}

#if defined(__x86_64__)

// Whether the processor converts between float16 and float32. Not every compiler's __builtin_cpu_supports knows f16c.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

const Codec* avx2_codec() {
  static const Codec codec = Variant<kAvx2Kernels>::named("avx2");
  return __builtin_cpu_supports("avx2") && has_f16c() ? &codec : nullptr;
}

const Codec* avx512_codec() {
  static const Codec codec = Variant<kAvx512Kernels>::named("avx512");
  const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return runs ? &codec : nullptr;
}

#else

const Codec* avx2_codec() { return nullptr; }
const Codec* avx512_codec() { return nullptr; }

#endif

const Codec& choose() {
  const char* wanted = std::getenv("JAXINA_CODEC");
  if (wanted == nullptr || *wanted == '\0') {
    if (const Codec* widest = avx512_codec()) return *widest;
    if (const Codec* wide = avx2_codec()) return *wide;
    return *scalar_codec();
  }
  const std::string_view name = wanted;
  if (const Codec* named = codec_named(name)) return *named;
  const bool known = name == "avx2" || name == "avx512";
  throw Error(ErrorCode::kInvalidArgument,
              "JAXINA_CODEC=" + std::string(name) +
                  (known ? " needs instructions this processor does not have" : " is not a codec") +
                  "; use scalar, avx2 or avx512, or unset it to take the fastest");
}

}  // namespace

const Codec& codec() {
  static const Codec& chosen = choose();
  return chosen;
}

const Codec* codec_named(std::string_view name) {
  if (name == "scalar") return scalar_codec();
  if (name == "avx2") return avx2_codec();
  if (name == "avx512") return avx512_codec();
  return nullptr;
}

}  // namespace jaxina::numerics
