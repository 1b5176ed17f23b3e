// The loops over arrays, written once over a vector type; vector_arithmetic.h has what happens to a vector. Included by the
// one file of each instruction set; internal linkage keeps every copy in that file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/kernels.h"
#include "rdma_engine/numerics/scalar_vector.h"
#include "rdma_engine/numerics/vector_arithmetic.h"

namespace jaxina::numerics {
namespace {

constexpr bool kHostIsLittleEndian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

// Runs body(vector type, first element) over [0, count): whole vectors, then single elements.
template <class Wide, class Body>
inline void for_each_vector(std::size_t count, Body body) {
  const std::size_t whole = count - count % Wide::kWidth;
  for (std::size_t i = 0; i < whole; i += Wide::kWidth) body(Wide{}, i);
  for (std::size_t i = whole; i < count; ++i) body(ScalarVector{}, i);
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
    return finite_magnitude<V>(bits);
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
  std::uint32_t largest = Wide::largest_signed(widest);
  for (std::size_t i = whole; i < count; ++i) {
    largest = ScalarVector::max_signed(largest, magnitude_or_zero<ScalarVector, finite_only>(ScalarVector::load(x + i)));
  }
  return largest;
}

template <class Wide, Store store>
void quantize_to(const float* x, std::size_t count, Factors factors, std::int32_t limit, std::uint32_t* dst) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    put<V, store>(dst + i, quantized<V>(V::load(x + i), factors, limit));
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

enum class Write { kAll, kKeepNonFinite, kStreaming };

template <class Wide, Order order, Write write>
void dequantize_from(const std::uint32_t* sum, std::size_t count, Factors factors, float* y) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    const auto value = dequantized<V>(in_order<V, order>(V::load(sum + i)), factors);
    if constexpr (write == Write::kKeepNonFinite) {
      const auto old = V::load(y + i);
      V::store(y + i, V::select(finite<V>(old), value, old));
    } else if constexpr (write == Write::kStreaming) {
      V::stream(y + i, value);
    } else {
      V::store(y + i, value);
    }
  });
}

template <class Wide>
void dequantize(const std::uint32_t* sum, std::size_t count, Factors factors, Order order, bool keep_non_finite,
                float* y) {
  if (order == Order::kHost) {
    keep_non_finite ? dequantize_from<Wide, Order::kHost, Write::kKeepNonFinite>(sum, count, factors, y)
                    : dequantize_from<Wide, Order::kHost, Write::kAll>(sum, count, factors, y);
  } else {
    keep_non_finite ? dequantize_from<Wide, Order::kBigEndian, Write::kKeepNonFinite>(sum, count, factors, y)
                    : dequantize_from<Wide, Order::kBigEndian, Write::kAll>(sum, count, factors, y);
  }
}

template <class Wide>
void dequantize_streaming(const std::uint32_t* sum, std::size_t count, Factors factors, Order order, float* y) {
  if (reinterpret_cast<std::uintptr_t>(y) % sizeof(typename Wide::Words) != 0) {
    dequantize<Wide>(sum, count, factors, order, false, y);
  } else if (order == Order::kHost) {
    dequantize_from<Wide, Order::kHost, Write::kStreaming>(sum, count, factors, y);
  } else {
    dequantize_from<Wide, Order::kBigEndian, Write::kStreaming>(sum, count, factors, y);
  }
}

// How far ahead the exponents' elements are called from memory, which the processor itself does only within a page.
constexpr std::size_t kPrefetchedElements = 1024;
constexpr std::size_t kLineElements = 16;

template <class V, Store store, Write write>
inline typename V::Words exchange_vector(const BlockExchange& b, std::size_t i, typename V::Words widest) {
  if (i % kLineElements == 0) __builtin_prefetch(b.ahead + i + kPrefetchedElements, 0, 2);
  put<V, store>(b.words + i, quantized<V>(V::load(b.x + i), b.forth, b.limit));
  const auto value = dequantized<V>(V::load(b.sum + i), b.back);
  if constexpr (write == Write::kStreaming) {
    V::stream(b.y + i, value);
  } else {
    V::store(b.y + i, value);
  }
  return V::max_signed(widest, magnitude<V>(V::load(b.ahead + i)));
}

template <class Wide, Store store, Write write>
std::uint32_t exchange_to(const BlockExchange b) {
  const std::size_t whole = b.count - b.count % Wide::kWidth;
  auto widest = Wide::fill(0);
  for (std::size_t i = 0; i < whole; i += Wide::kWidth) widest = exchange_vector<Wide, store, write>(b, i, widest);
  std::uint32_t largest = Wide::largest_signed(widest);
  for (std::size_t i = whole; i < b.count; ++i) largest = exchange_vector<ScalarVector, store, write>(b, i, largest);
  return largest;
}

template <class Wide>
std::uint32_t exchange(const BlockExchange& b) {
  if (b.streaming && reinterpret_cast<std::uintptr_t>(b.y) % sizeof(typename Wide::Words) == 0) {
    return b.store == Store::kAdd ? exchange_to<Wide, Store::kAdd, Write::kStreaming>(b)
                                  : exchange_to<Wide, Store::kWrite, Write::kStreaming>(b);
  }
  return b.store == Store::kAdd ? exchange_to<Wide, Store::kAdd, Write::kAll>(b)
                                : exchange_to<Wide, Store::kWrite, Write::kAll>(b);
}

template <class Wide, Store store>
void non_finite_flags_to(const float* x, std::size_t count, std::uint32_t* dst) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    put<V, store>(dst + i, non_finite_flag<V>(V::load(x + i)));
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
    const auto otherwise = clear ? V::fill(0) : V::load(y + i);
    V::store(y + i, flagged<V>(in_order<V, order>(V::load(sum + i)), otherwise));
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
      .dequantize_streaming = dequantize_streaming<Wide>,
      .end_streaming = Wide::end_streaming,
      .exchange = exchange<Wide>,
      .non_finite_flags = non_finite_flags<Wide>,
      .apply_non_finite_flags = apply_non_finite_flags<Wide>,
      .move_words = move_words<Wide>,
  };
}

}  // namespace
}  // namespace jaxina::numerics
