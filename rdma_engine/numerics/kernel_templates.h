// The kernels, written once over a vector type (scalar_vector.h names its operations). Included by the one file of each
// instruction set; internal linkage keeps every copy in that file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/kernels.h"
#include "rdma_engine/numerics/scalar_vector.h"

namespace jaxina::numerics {
namespace {

constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;
constexpr std::uint32_t kPlusInfinity = 0x7f800000;
constexpr std::uint32_t kMinusInfinity = 0xff800000;
constexpr std::uint32_t kQuietNan = 0x7fc00000;
constexpr std::uint32_t kPlusInfinityFlag = 0x00000001;
constexpr std::uint32_t kMinusInfinityFlag = 0x00010000;
constexpr bool kHostIsLittleEndian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

// Runs body(vector type, first element) over [0, count): whole vectors, then single elements.
template <class Wide, class Body>
inline void for_each_vector(std::size_t count, Body body) {
  const std::size_t whole = count - count % Wide::kWidth;
  for (std::size_t i = 0; i < whole; i += Wide::kWidth) body(Wide{}, i);
  for (std::size_t i = whole; i < count; ++i) body(ScalarVector{}, i);
}

template <class V>
inline typename V::Words magnitude(typename V::Words bits) {
  return V::bit_and(bits, V::fill(kMagnitudeMask));
}

template <class V>
inline typename V::Mask finite(typename V::Words bits) {
  return V::greater_signed(V::fill(kPlusInfinity), magnitude<V>(bits));
}

template <class V, Order order>
inline typename V::Words in_order(typename V::Words word) {
  if constexpr (order == Order::kBigEndian && kHostIsLittleEndian) {
    return V::swap_bytes(word);
  } else {
    return word;
  }
}

template <class V, Store store>
inline void put(std::uint32_t* dst, typename V::Words word) {
  if constexpr (store == Store::kAdd) {
    V::store(dst, V::add(V::load(dst), word));
  } else {
    V::store(dst, in_order<V, store == Store::kBigEndian ? Order::kBigEndian : Order::kHost>(word));
  }
}

template <class V, bool finite_only>
inline typename V::Words magnitude_or_zero(typename V::Words bits) {
  if constexpr (finite_only) {
    return V::select(finite<V>(bits), magnitude<V>(bits), V::fill(0));
  } else {
    return magnitude<V>(bits);
  }
}

template <class Wide, bool finite_only>
std::uint32_t max_magnitude(const float* x, std::size_t count) {
  const std::size_t whole = count - count % Wide::kWidth;
  auto widest = Wide::fill(0);
  for (std::size_t i = 0; i < whole; i += Wide::kWidth) {
    widest = Wide::max_signed(widest, magnitude_or_zero<Wide, finite_only>(Wide::load(x + i)));
  }
  std::uint32_t lanes[Wide::kWidth];
  Wide::store(lanes, widest);
  std::uint32_t largest = 0;
  for (std::uint32_t lane : lanes) largest = ScalarVector::max_signed(largest, lane);
  for (std::size_t i = whole; i < count; ++i) {
    largest = ScalarVector::max_signed(largest, magnitude_or_zero<ScalarVector, finite_only>(ScalarVector::load(x + i)));
  }
  return largest;
}

template <class Wide, Store store>
void quantize_to(const float* x, std::size_t count, Factors factors, std::int32_t limit, std::uint32_t* dst) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    const auto bits = V::load(x + i);
    const auto value = V::as_floats(V::select(finite<V>(bits), bits, V::fill(0)));
    const auto scaled = V::multiply(V::multiply(value, V::fill_float(factors.first)), V::fill_float(factors.second));
    const auto highest = V::fill(static_cast<std::uint32_t>(limit));
    const auto lowest = V::fill(0u - static_cast<std::uint32_t>(limit));
    // An integer too large for 32 bits can only come from an exponent that is not the block's; it is clamped as well.
    const auto word = V::select(V::at_least(scaled, V::fill_float(0x1p31f)), highest, V::to_integers(scaled));
    put<V, store>(dst + i, V::max_signed(V::min_signed(word, highest), lowest));
  });
}

template <class Wide>
void quantize(const float* x, std::size_t count, Factors factors, std::int32_t limit, Store store, std::uint32_t* dst) {
  switch (store) {
    case Store::kWrite: return quantize_to<Wide, Store::kWrite>(x, count, factors, limit, dst);
    case Store::kAdd: return quantize_to<Wide, Store::kAdd>(x, count, factors, limit, dst);
    case Store::kBigEndian: return quantize_to<Wide, Store::kBigEndian>(x, count, factors, limit, dst);
  }
}

template <class Wide, Order order, bool keep_non_finite>
void dequantize_from(const std::uint32_t* sum, std::size_t count, Factors factors, float* y) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    const auto value = V::to_floats(in_order<V, order>(V::load(sum + i)));
    const auto scaled = V::multiply(V::multiply(value, V::fill_float(factors.first)), V::fill_float(factors.second));
    if constexpr (keep_non_finite) {
      const auto old = V::load(y + i);
      V::store(y + i, V::select(finite<V>(old), V::as_words(scaled), old));
    } else {
      V::store(y + i, V::as_words(scaled));
    }
  });
}

template <class Wide>
void dequantize(const std::uint32_t* sum, std::size_t count, Factors factors, Order order, bool keep_non_finite,
                float* y) {
  if (order == Order::kHost) {
    keep_non_finite ? dequantize_from<Wide, Order::kHost, true>(sum, count, factors, y)
                    : dequantize_from<Wide, Order::kHost, false>(sum, count, factors, y);
  } else {
    keep_non_finite ? dequantize_from<Wide, Order::kBigEndian, true>(sum, count, factors, y)
                    : dequantize_from<Wide, Order::kBigEndian, false>(sum, count, factors, y);
  }
}

template <class Wide, Store store>
void non_finite_flags_to(const float* x, std::size_t count, std::uint32_t* dst) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    const auto bits = V::load(x + i);
    auto flag = V::select(finite<V>(bits), V::fill(0), V::fill(kPlusInfinityFlag | kMinusInfinityFlag));
    flag = V::select(V::equal(bits, V::fill(kPlusInfinity)), V::fill(kPlusInfinityFlag), flag);
    flag = V::select(V::equal(bits, V::fill(kMinusInfinity)), V::fill(kMinusInfinityFlag), flag);
    put<V, store>(dst + i, flag);
  });
}

template <class Wide>
void non_finite_flags(const float* x, std::size_t count, Store store, std::uint32_t* dst) {
  switch (store) {
    case Store::kWrite: return non_finite_flags_to<Wide, Store::kWrite>(x, count, dst);
    case Store::kAdd: return non_finite_flags_to<Wide, Store::kAdd>(x, count, dst);
    case Store::kBigEndian: return non_finite_flags_to<Wide, Store::kBigEndian>(x, count, dst);
  }
}

template <class Wide, Order order>
void apply_non_finite_flags_from(const std::uint32_t* sum, std::size_t count, bool clear, float* y) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    const auto zero = V::fill(0);
    const auto flags = in_order<V, order>(V::load(sum + i));
    const auto no_plus = V::equal(V::bit_and(flags, V::fill(kMinusInfinityFlag - 1)), zero);
    const auto no_minus = V::equal(V::bit_and(flags, V::fill(0u - kMinusInfinityFlag)), zero);
    auto bits = V::select(no_minus, V::fill(kPlusInfinity), V::fill(kQuietNan));
    bits = V::select(no_plus, V::fill(kMinusInfinity), bits);
    const auto finite_bits = clear ? zero : V::load(y + i);
    V::store(y + i, V::select(V::equal(flags, zero), finite_bits, bits));
  });
}

template <class Wide>
void apply_non_finite_flags(const std::uint32_t* sum, std::size_t count, Order order, bool clear, float* y) {
  order == Order::kHost ? apply_non_finite_flags_from<Wide, Order::kHost>(sum, count, clear, y)
                        : apply_non_finite_flags_from<Wide, Order::kBigEndian>(sum, count, clear, y);
}

template <class Wide, Order order, bool add>
void move_words_from(const std::uint32_t* src, std::size_t count, std::uint32_t* dst) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    put<V, add ? Store::kAdd : Store::kWrite>(dst + i, in_order<V, order>(V::load(src + i)));
  });
}

template <class Wide>
void move_words(const std::uint32_t* src, std::size_t count, Order order, bool add, std::uint32_t* dst) {
  if (order == Order::kHost) {
    add ? move_words_from<Wide, Order::kHost, true>(src, count, dst)
        : move_words_from<Wide, Order::kHost, false>(src, count, dst);
  } else {
    add ? move_words_from<Wide, Order::kBigEndian, true>(src, count, dst)
        : move_words_from<Wide, Order::kBigEndian, false>(src, count, dst);
  }
}

template <class Wide>
constexpr Kernels kernels_over() {
  return {
      .max_magnitude = max_magnitude<Wide, false>,
      .max_finite_magnitude = max_magnitude<Wide, true>,
      .quantize = quantize<Wide>,
      .dequantize = dequantize<Wide>,
      .non_finite_flags = non_finite_flags<Wide>,
      .apply_non_finite_flags = apply_non_finite_flags<Wide>,
      .move_words = move_words<Wide>,
  };
}

}  // namespace
}  // namespace jaxina::numerics
