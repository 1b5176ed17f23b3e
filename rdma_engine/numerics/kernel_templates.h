// The kernels' loops over arrays, written once for any vector type. vector_arithmetic.h has the arithmetic of one
// vector. Exactly one file per instruction set includes this header; internal linkage keeps each copy in its file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma_engine/numerics/kernels.h"
#include "rdma_engine/numerics/narrow_kernels.h"
#include "rdma_engine/numerics/scalar_vector.h"
#include "rdma_engine/numerics/vector_arithmetic.h"
#include "rdma_engine/numerics/vector_loops.h"

namespace jaxina::numerics {
namespace {

// Like for_each_vector, but with one accumulator per lane, which starts at 0: body(vector type, first element,
// accumulators) returns the new accumulators. Returns the sum over all lanes.
template <class Wide, class Body>
inline std::uint32_t fold_vectors(std::size_t count, Body body) {
  const std::size_t whole = count - count % Wide::kWidth;
  auto wide = Wide::fill(0);
  for (std::size_t i = 0; i < whole; i += Wide::kWidth) wide = body(Wide{}, i, wide);
  std::uint32_t total = Wide::sum(wide);
  for (std::size_t i = whole; i < count; ++i) total = body(ScalarVector{}, i, total);
  return total;
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

template <class Wide, class Element, bool finite_only>
std::uint32_t max_magnitude(const void* elements, std::size_t count) {
  const auto* x = static_cast<const Element*>(elements);
  const std::size_t whole = count - count % Wide::kWidth;
  auto widest = Wide::fill(0);
  for (std::size_t i = 0; i < whole; i += Wide::kWidth) {
    widest = Wide::max_signed(widest, magnitude_or_zero<Wide, finite_only>(Wide::load_float(x + i)));
  }
  std::uint32_t largest = Wide::largest_signed(widest);
  for (std::size_t i = whole; i < count; ++i) {
    largest = ScalarVector::max_signed(largest,
                                       magnitude_or_zero<ScalarVector, finite_only>(ScalarVector::load_float(x + i)));
  }
  return largest;
}

template <class Wide, class Element, Store store>
std::uint32_t quantize_to(const Element* x, std::size_t count, Factors factors, std::int32_t limit,
                          std::uint32_t* dst) {
  return fold_vectors<Wide>(count, [=](auto vector, std::size_t i, auto rounded_to_zero) {
    using V = decltype(vector);
    const auto bits = V::load_float(x + i);
    const auto word = quantized<V>(bits, factors, limit);
    put<V, store>(dst + i, word);
    return count_rounded_to_zero<V>(rounded_to_zero, bits, word);
  });
}

template <class Wide, class Element>
std::uint32_t quantize(const void* elements, std::size_t count, Factors factors, std::int32_t limit, Store store,
                       std::uint32_t* dst) {
  const auto* x = static_cast<const Element*>(elements);
  switch (store) {
    case Store::kWrite: return quantize_to<Wide, Element, Store::kWrite>(x, count, factors, limit, dst);
    case Store::kAdd: return quantize_to<Wide, Element, Store::kAdd>(x, count, factors, limit, dst);
    case Store::kBigEndian: return quantize_to<Wide, Element, Store::kBigEndian>(x, count, factors, limit, dst);
  }
  return 0;
}

enum class Write { kAll, kKeepNonFinite, kStreaming };

template <class V, class Element, Write write>
inline void put_float(Element* y, typename V::Words value) {
  if constexpr (write == Write::kKeepNonFinite) {
    const auto old = V::load_float(y);
    V::store_float(y, V::select(finite<V>(old), value, old));
  } else if constexpr (write == Write::kStreaming) {
    V::stream_float(y, value);
  } else {
    V::store_float(y, value);
  }
}

template <class Wide, class Element, Order order, Write write>
void dequantize_from(const std::uint32_t* sum, std::size_t count, Factors factors, Element* y) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    put_float<V, Element, write>(y + i, dequantized<V>(in_order<V, order>(V::load(sum + i)), factors));
  });
}

template <class Wide, class Element>
void dequantize(const std::uint32_t* sum, std::size_t count, Factors factors, Order order, bool keep_non_finite,
                void* elements) {
  auto* y = static_cast<Element*>(elements);
  if (order == Order::kHost) {
    keep_non_finite ? dequantize_from<Wide, Element, Order::kHost, Write::kKeepNonFinite>(sum, count, factors, y)
                    : dequantize_from<Wide, Element, Order::kHost, Write::kAll>(sum, count, factors, y);
  } else {
    keep_non_finite ? dequantize_from<Wide, Element, Order::kBigEndian, Write::kKeepNonFinite>(sum, count, factors, y)
                    : dequantize_from<Wide, Element, Order::kBigEndian, Write::kAll>(sum, count, factors, y);
  }
}

// Whether y has the alignment that streaming whole vectors of elements needs.
template <class Wide, class Element>
inline bool may_stream(const Element* y) {
  return reinterpret_cast<std::uintptr_t>(y) % (Wide::kWidth * sizeof(Element)) == 0;
}

template <class Wide, class Element>
void dequantize_streaming(const std::uint32_t* sum, std::size_t count, Factors factors, Order order, void* elements) {
  auto* y = static_cast<Element*>(elements);
  if (!may_stream<Wide>(y)) {
    dequantize<Wide, Element>(sum, count, factors, order, false, y);
  } else if (order == Order::kHost) {
    dequantize_from<Wide, Element, Order::kHost, Write::kStreaming>(sum, count, factors, y);
  } else {
    dequantize_from<Wide, Element, Order::kBigEndian, Write::kStreaming>(sum, count, factors, y);
  }
}

// How far ahead of their use the elements for the exponents are prefetched. The processor's own prefetcher stops at the
// end of a page.
constexpr std::size_t kPrefetchedBytes = 4096;
constexpr std::size_t kLineBytes = 64;

// The per-lane results of exchanging one block.
template <class V>
struct Found {
  typename V::Words widest = V::fill(0), rounded_to_zero = V::fill(0);
};

template <class V, class Element, Store store, Write write, bool shifts>
inline void exchange_vector(const BlockExchange& b, std::size_t i, Found<V>& found) {
  const Element* ahead = static_cast<const Element*>(b.ahead) + i;
  constexpr std::size_t kOfLine = kLineBytes / sizeof(Element), kPrefetched = kPrefetchedBytes / sizeof(Element);
  if (i % kOfLine == 0) __builtin_prefetch(ahead + kPrefetched, 0, 2);
  const auto bits = V::load_float(static_cast<const Element*>(b.x) + i);
  const auto word = quantized<V>(bits, b.quantize_factors, b.limit);
  put<V, store>(b.words + i, word);
  found.rounded_to_zero = count_rounded_to_zero<V>(found.rounded_to_zero, bits, word);
  auto sum = V::load(b.sum + i);
  if constexpr (shifts) sum = shifted<V>(sum, b.shift);
  put_float<V, Element, write>(static_cast<Element*>(b.y) + i, dequantized<V>(sum, b.dequantize_factors));
  found.widest = V::max_signed(found.widest, magnitude<V>(V::load_float(ahead)));
}

template <class Wide, class Element, Store store, Write write, bool shifts>
BlockExchanged exchange_to(const BlockExchange b) {
  const std::size_t whole = b.count - b.count % Wide::kWidth;
  Found<Wide> found;
  for (std::size_t i = 0; i < whole; i += Wide::kWidth) {
    exchange_vector<Wide, Element, store, write, shifts>(b, i, found);
  }
  Found<ScalarVector> all{Wide::largest_signed(found.widest), Wide::sum(found.rounded_to_zero)};
  for (std::size_t i = whole; i < b.count; ++i) exchange_vector<ScalarVector, Element, store, write, shifts>(b, i, all);
  return {all.widest, all.rounded_to_zero};
}

template <class Wide, class Element, bool shifts>
BlockExchanged exchange_with(const BlockExchange& b) {
  if (b.streaming && may_stream<Wide>(static_cast<const Element*>(b.y))) {
    return b.store == Store::kAdd ? exchange_to<Wide, Element, Store::kAdd, Write::kStreaming, shifts>(b)
                                  : exchange_to<Wide, Element, Store::kWrite, Write::kStreaming, shifts>(b);
  }
  return b.store == Store::kAdd ? exchange_to<Wide, Element, Store::kAdd, Write::kAll, shifts>(b)
                                : exchange_to<Wide, Element, Store::kWrite, Write::kAll, shifts>(b);
}

template <class Wide, class Element>
BlockExchanged exchange(const BlockExchange& b) {
  return b.shift == 0 ? exchange_with<Wide, Element, false>(b) : exchange_with<Wide, Element, true>(b);
}

template <class Wide, class Element, Store store>
void non_finite_flags_to(const Element* x, std::size_t count, std::uint32_t* dst) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    put<V, store>(dst + i, non_finite_flag<V>(V::load_float(x + i)));
  });
}

template <class Wide, class Element>
void non_finite_flags(const void* elements, std::size_t count, Store store, std::uint32_t* dst) {
  const auto* x = static_cast<const Element*>(elements);
  switch (store) {
    case Store::kWrite: return non_finite_flags_to<Wide, Element, Store::kWrite>(x, count, dst);
    case Store::kAdd: return non_finite_flags_to<Wide, Element, Store::kAdd>(x, count, dst);
    case Store::kBigEndian: return non_finite_flags_to<Wide, Element, Store::kBigEndian>(x, count, dst);
  }
}

template <class Wide, class Element, Order order>
void apply_non_finite_flags_from(const std::uint32_t* sum, std::size_t count, bool clear, Element* y) {
  for_each_vector<Wide>(count, [=](auto vector, std::size_t i) {
    using V = decltype(vector);
    const auto otherwise = clear ? V::fill(0) : V::load_float(y + i);
    V::store_float(y + i, flagged<V>(in_order<V, order>(V::load(sum + i)), otherwise));
  });
}

template <class Wide, class Element>
void apply_non_finite_flags(const std::uint32_t* sum, std::size_t count, Order order, bool clear, void* elements) {
  auto* y = static_cast<Element*>(elements);
  order == Order::kHost ? apply_non_finite_flags_from<Wide, Element, Order::kHost>(sum, count, clear, y)
                        : apply_non_finite_flags_from<Wide, Element, Order::kBigEndian>(sum, count, clear, y);
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

template <class Wide, class Element>
constexpr FloatKernels float_kernels_over() {
  return {
      .max_magnitude = max_magnitude<Wide, Element, false>,
      .max_finite_magnitude = max_magnitude<Wide, Element, true>,
      .quantize = quantize<Wide, Element>,
      .quantize_at_random = quantize_at_random<Wide, Element>,
      .dequantize = dequantize<Wide, Element>,
      .dequantize_streaming = dequantize_streaming<Wide, Element>,
      .exchange = exchange<Wide, Element>,
      .non_finite_flags = non_finite_flags<Wide, Element>,
      .apply_non_finite_flags = apply_non_finite_flags<Wide, Element>,
  };
}

template <class Wide>
constexpr Kernels kernels_over() {
  return {
      .float32 = float_kernels_over<Wide, float>(),
      .float16 = float_kernels_over<Wide, Float16>(),
      .bfloat16 = float_kernels_over<Wide, Bfloat16>(),
      .end_streaming = Wide::end_streaming,
      .move_words = move_words<Wide>,
      .pack = pack<Wide>,
      .unpack = unpack<Wide>,
      .shift = shift<Wide>,
  };
}

}  // namespace
}  // namespace jaxina::numerics
