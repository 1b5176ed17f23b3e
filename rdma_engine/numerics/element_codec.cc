#include "rdma_engine/numerics/element_codec.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "rdma_engine/numerics/float64_limbs.h"
#include "rdma_engine/numerics/float_mode.h"
#include "rdma_engine/numerics/narrow_float.h"

namespace jaxina::numerics {
namespace {

// ---- words one at a time, for the forms that Codec has no kernel for

void put(std::uint32_t* dst, std::uint32_t word, Store store) {
  switch (store) {
    case Store::kWrite: *dst = word; return;
    case Store::kAdd: *dst += word; return;
    case Store::kBigEndian:
      *dst = std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
      return;
  }
}

std::uint32_t take(const std::uint32_t* word, Order order) {
  const bool swap = order == Order::kBigEndian && std::endian::native == std::endian::little;
  return swap ? __builtin_bswap32(*word) : *word;
}

// ---- float32

struct Float32 {
  static std::uint8_t exponent(const Codec& c, const void* x, std::size_t n) { return c.exponent(static_cast<const float*>(x), n); }
  static std::uint8_t finite_exponent(const Codec& c, const void* x, std::size_t n) {
    return c.finite_exponent(static_cast<const float*>(x), n);
  }
  static void encode(const Codec& c, const void* x, std::size_t n, std::uint8_t e, Scale s, Store store, std::uint32_t* dst) {
    c.quantize(static_cast<const float*>(x), n, e, s, store, dst);
  }
  static void decode(const Codec& c, const std::uint32_t* sum, std::size_t n, std::uint8_t e, Scale s, Order order, bool keep,
                     void* y) {
    c.dequantize(sum, n, e, s, order, keep, static_cast<float*>(y));
  }
  static void flags(const Codec& c, const void* x, std::size_t n, Store store, std::uint32_t* dst) {
    c.non_finite_flags(static_cast<const float*>(x), n, store, dst);
  }
  static void apply_flags(const Codec& c, const std::uint32_t* sum, std::size_t n, Order order, bool clear, void* y) {
    c.apply_non_finite_flags(sum, n, order, clear, static_cast<float*>(y));
  }
};

// ---- float16 and bfloat16, through float32

template <typename Narrow>
struct NarrowFloat {
  class Widened {
   public:
    Widened(const void* x, std::size_t n) {
      const IeeeFloatMode mode;
      const auto* from = static_cast<const Narrow*>(x);
      for (std::size_t i = 0; i < n; ++i) values_[i] = widen(from[i]);
    }
    const float* data() const { return values_; }
    float* data() { return values_; }
    void narrow_to(void* y, std::size_t n) const {
      const IeeeFloatMode mode;
      auto* to = static_cast<Narrow*>(y);
      for (std::size_t i = 0; i < n; ++i) narrow(values_[i], to[i]);
    }

   private:
    alignas(64) float values_[kMaxBlockSize];
  };

  static std::uint8_t exponent(const Codec& c, const void* x, std::size_t n) { return c.exponent(Widened(x, n).data(), n); }
  static std::uint8_t finite_exponent(const Codec& c, const void* x, std::size_t n) {
    return c.finite_exponent(Widened(x, n).data(), n);
  }
  static void encode(const Codec& c, const void* x, std::size_t n, std::uint8_t e, Scale s, Store store, std::uint32_t* dst) {
    c.quantize(Widened(x, n).data(), n, e, s, store, dst);
  }
  static void decode(const Codec& c, const std::uint32_t* sum, std::size_t n, std::uint8_t e, Scale s, Order order, bool keep,
                     void* y) {
    Widened values(y, keep ? n : 0);
    c.dequantize(sum, n, e, s, order, keep, values.data());
    values.narrow_to(y, n);
  }
  static void flags(const Codec& c, const void* x, std::size_t n, Store store, std::uint32_t* dst) {
    c.non_finite_flags(Widened(x, n).data(), n, store, dst);
  }
  static void apply_flags(const Codec& c, const std::uint32_t* sum, std::size_t n, Order order, bool clear, void* y) {
    Widened values(y, n);
    c.apply_non_finite_flags(sum, n, order, clear, values.data());
    values.narrow_to(y, n);
  }
};

// ---- integers: no exponents, nothing non-finite

struct IntegerBase {
  static std::uint8_t exponent(const Codec&, const void*, std::size_t) { return 0; }
  static std::uint8_t finite_exponent(const Codec&, const void*, std::size_t) { return 0; }
  static void apply_flags(const Codec&, const std::uint32_t*, std::size_t, Order, bool, void*) {}
};

template <std::size_t Words>
struct ZeroFlags {
  static void flags(const Codec&, const void*, std::size_t n, Store store, std::uint32_t* dst) {
    if (store != Store::kAdd) std::memset(dst, 0, Words * n * sizeof(*dst));
  }
};

struct Int32 : IntegerBase, ZeroFlags<1> {
  static void encode(const Codec& c, const void* x, std::size_t n, std::uint8_t, Scale, Store store, std::uint32_t* dst) {
    c.encode_int32(static_cast<const std::uint32_t*>(x), n, store, dst);
  }
  static void decode(const Codec& c, const std::uint32_t* sum, std::size_t n, std::uint8_t, Scale, Order order, bool, void* y) {
    c.decode_int32(sum, n, order, static_cast<std::uint32_t*>(y));
  }
};

template <typename Narrow>
struct NarrowInt : IntegerBase, ZeroFlags<1> {
  static void encode(const Codec&, const void* x, std::size_t n, std::uint8_t, Scale, Store store, std::uint32_t* dst) {
    const auto* from = static_cast<const Narrow*>(x);
    for (std::size_t i = 0; i < n; ++i) put(dst + i, from[i], store);
  }
  static void decode(const Codec&, const std::uint32_t* sum, std::size_t n, std::uint8_t, Scale, Order order, bool, void* y) {
    auto* to = static_cast<Narrow*>(y);
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<Narrow>(take(sum + i, order));
  }
};

struct Int64 : IntegerBase, ZeroFlags<4> {
  static void encode(const Codec&, const void* x, std::size_t n, std::uint8_t, Scale, Store store, std::uint32_t* dst) {
    const auto* from = static_cast<const std::uint64_t*>(x);
    for (std::size_t i = 0; i < n; ++i) {
      for (int limb = 0; limb < 4; ++limb) put(dst + 4 * i + limb, static_cast<std::uint16_t>(from[i] >> (16 * limb)), store);
    }
  }
  static void decode(const Codec&, const std::uint32_t* sum, std::size_t n, std::uint8_t, Scale, Order order, bool, void* y) {
    auto* to = static_cast<std::uint64_t*>(y);
    for (std::size_t i = 0; i < n; ++i) {
      to[i] = 0;
      for (int limb = 0; limb < 4; ++limb) to[i] += std::uint64_t{take(sum + 4 * i + limb, order)} << (16 * limb);
    }
  }
};

// ---- float64

struct Float64 {
  static std::uint8_t block_exponent(const void* x, std::size_t n, bool finite_only) {
    const auto* values = static_cast<const double*>(x);
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t biased = biased_exponent(values[i]);
      if (biased != 0x7ff) largest = std::max(largest, biased);
      else if (!finite_only) return kNonFiniteExponent;
    }
    return static_cast<std::uint8_t>(largest / kFloat64ExponentStep);
  }
  static std::uint8_t exponent(const Codec&, const void* x, std::size_t n) { return block_exponent(x, n, false); }
  static std::uint8_t finite_exponent(const Codec&, const void* x, std::size_t n) { return block_exponent(x, n, true); }

  static void encode(const Codec&, const void* x, std::size_t n, std::uint8_t e, Scale s, Store store, std::uint32_t* dst) {
    const auto* values = static_cast<const double*>(x);
    const int power = float64_scale_exponent(e, s);
    for (std::size_t i = 0; i < n; ++i) {
      const bool finite = biased_exponent(values[i]) != 0x7ff;
      const auto limbs = to_limbs(finite ? scaled_integer(values[i], power) : 0);
      for (std::size_t limb = 0; limb < kFloat64Limbs; ++limb) put(dst + kFloat64Limbs * i + limb, limbs[limb], store);
    }
  }
  static void decode(const Codec&, const std::uint32_t* sum, std::size_t n, std::uint8_t e, Scale s, Order order, bool keep,
                     void* y) {
    const IeeeFloatMode mode;
    auto* values = static_cast<double*>(y);
    const int power = -float64_scale_exponent(e, s);
    for (std::size_t i = 0; i < n; ++i) {
      if (keep && biased_exponent(values[i]) == 0x7ff) continue;
      std::array<std::uint32_t, kFloat64Limbs> limbs;
      for (std::size_t limb = 0; limb < kFloat64Limbs; ++limb) limbs[limb] = take(sum + kFloat64Limbs * i + limb, order);
      values[i] = scaled_double(from_limbs(limbs), power);
    }
  }
  static void flags(const Codec&, const void* x, std::size_t n, Store store, std::uint32_t* dst) {
    const auto* values = static_cast<const double*>(x);
    if (store != Store::kAdd) std::memset(dst, 0, kFloat64Limbs * n * sizeof(*dst));
    for (std::size_t i = 0; i < n; ++i) {
      if (biased_exponent(values[i]) != 0x7ff) continue;
      const auto bits = std::bit_cast<std::uint64_t>(values[i]);
      const bool is_nan = (bits << 12) != 0;
      put(dst + kFloat64Limbs * i, is_nan ? 0x10001u : bits >> 63 ? 0x10000u : 1u, store);
    }
  }
  static void apply_flags(const Codec&, const std::uint32_t* sum, std::size_t n, Order order, bool clear, void* y) {
    auto* values = static_cast<double*>(y);
    constexpr double kInf = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t word = take(sum + kFloat64Limbs * i, order);
      const bool plus = (word & 0xffffu) != 0, minus = (word >> 16) != 0;
      if (plus || minus) values[i] = plus && minus ? std::numeric_limits<double>::quiet_NaN() : plus ? kInf : -kInf;
      else if (clear) values[i] = 0;
    }
  }
};

template <typename Form>
constexpr ElementCodec make(ElementType type, std::size_t size, std::size_t words, bool is_float) {
  return {type, size, words, is_float, Form::exponent, Form::finite_exponent, Form::encode, Form::decode, Form::flags,
          Form::apply_flags};
}

constexpr ElementCodec kCodecs[] = {
    make<Float32>(ElementType::kFloat32, 4, 1, true),
    make<Int32>(ElementType::kInt32, 4, 1, false),
    make<NarrowFloat<Float16>>(ElementType::kFloat16, 2, 1, true),
    make<NarrowFloat<Bfloat16>>(ElementType::kBfloat16, 2, 1, true),
    make<Float64>(ElementType::kFloat64, 8, kFloat64Limbs, true),
    make<NarrowInt<std::uint8_t>>(ElementType::kInt8, 1, 1, false),
    make<NarrowInt<std::uint16_t>>(ElementType::kInt16, 2, 1, false),
    make<Int64>(ElementType::kInt64, 8, 4, false),
};

}  // namespace

const ElementCodec& element_codec(ElementType type) { return kCodecs[static_cast<std::size_t>(type) - 1]; }

std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "float32";
    case ElementType::kInt32: return "int32";
    case ElementType::kFloat16: return "float16";
    case ElementType::kBfloat16: return "bfloat16";
    case ElementType::kFloat64: return "float64";
    case ElementType::kInt8: return "int8";
    case ElementType::kInt16: return "int16";
    case ElementType::kInt64: return "int64";
  }
  return "unknown";
}

}  // namespace jaxina::numerics
