#include "rdma_engine/numerics/element_codec.h"

#include <algorithm>
#include <cstring>

#include "rdma_engine/numerics/element_forms.h"
#include "rdma_engine/numerics/float_mode.h"

namespace jaxina::numerics {
namespace {

// ---- single words, for the forms without a kernel in Codec

void put(std::uint32_t* dst, std::uint32_t word, Store store) {
  switch (store) {
    case Store::kWrite: *dst = word; return;
    case Store::kAdd: *dst += word; return;
    case Store::kBigEndian: *dst = std::endian::native == std::endian::little ? __builtin_bswap32(word) : word; return;
  }
}

std::uint32_t take(const std::uint32_t* word, Order order) {
  const bool swap = order == Order::kBigEndian && std::endian::native == std::endian::little;
  return swap ? __builtin_bswap32(*word) : *word;
}

// ---- float32, float16 and bfloat16

template <FloatCodec Codec::* type>
struct OneWordFloat {
  static std::uint8_t exponent(const Codec& c, const void* x, std::size_t n) { return (c.*type).exponent(x, n); }
  static std::uint8_t finite_exponent(const Codec& c, const void* x, std::size_t n) {
    return (c.*type).finite_exponent(x, n);
  }
  static std::size_t encode(const Codec& c, const void* x, std::size_t n, std::uint8_t e, Scale s, Store store,
                            std::uint32_t* dst) {
    return (c.*type).quantize(x, n, e, s, store, dst);
  }
  static void encode_at_random(const Codec& c, const void* x, std::size_t n, std::uint8_t e, Scale s,
                               std::uint64_t seed, bool add, std::uint32_t* dst) {
    (c.*type).quantize_at_random(x, n, e, s, seed, add, dst);
  }
  static void decode(const Codec& c, const std::uint32_t* sum, std::size_t n, std::uint8_t e, Scale s, Order order,
                     bool keep, void* y) {
    (c.*type).dequantize(sum, n, e, s, order, keep, y);
  }
  static void decode_streaming(const Codec& c, const std::uint32_t* sum, std::size_t n, std::uint8_t e, Scale s,
                               Order order, void* y) {
    (c.*type).dequantize_streaming(sum, n, e, s, order, y);
  }
  static std::size_t exchange(const Codec& c, const Exchange& step, Scale encode, Scale decode) {
    return (c.*type).exchange(step, encode, decode);
  }
  static void flags(const Codec& c, const void* x, std::size_t n, Store store, std::uint32_t* dst) {
    (c.*type).non_finite_flags(x, n, store, dst);
  }
  static void apply_flags(const Codec& c, const std::uint32_t* sum, std::size_t n, Order order, bool clear, void* y) {
    (c.*type).apply_non_finite_flags(sum, n, order, clear, y);
  }
};

// ---- the types without SIMD kernels

template <class Form>
struct ElementByElement {
  using Element = typename Form::Element;

  static Element load(const void* x, std::size_t i) {
    Element element;
    std::memcpy(&element, static_cast<const Element*>(x) + i, sizeof(element));
    return element;
  }
  static void store(Element element, void* y, std::size_t i) {
    std::memcpy(static_cast<Element*>(y) + i, &element, sizeof(element));
  }

  static std::uint8_t exponent(const Codec&, const void* x, std::size_t n) {
    const IeeeFloatMode mode;  // float16 is widened by a product, which must keep subnormals
    std::uint32_t largest = 0;
    if constexpr (Form::kIsFloat) {
      for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, Form::magnitude(load(x, i)));
      return Form::exponent(largest);
    }
    return 0;
  }
  static std::uint8_t finite_exponent(const Codec&, const void* x, std::size_t n) {
    const IeeeFloatMode mode;
    std::uint32_t largest = 0;
    if constexpr (Form::kIsFloat) {
      for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, Form::finite_magnitude(load(x, i)));
      return Form::exponent(largest);
    }
    return 0;
  }
  static std::size_t encode(const Codec&, const void* x, std::size_t n, std::uint8_t e, Scale s, Store store,
                            std::uint32_t* dst) {
    const IeeeFloatMode mode;
    const auto scale = Form::encode_scale(e, s);
    std::size_t rounded_to_zero = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t words[Form::kWords], all = 0;
      const Element element = load(x, i);
      Form::encode(element, scale, words);
      for (std::size_t w = 0; w < Form::kWords; ++w) {
        all |= words[w];
        put(dst + Form::kWords * i + w, words[w], store);
      }
      if constexpr (Form::kIsFloat) {
        const bool zero = static_cast<decltype(element.bits)>(element.bits << 1) == 0;  // of either sign
        rounded_to_zero += all == 0 && !zero && Form::flag(element) == 0;
      }
    }
    return rounded_to_zero;
  }
  static void decode(const Codec&, const std::uint32_t* sum, std::size_t n, std::uint8_t e, Scale s, Order order,
                     bool keep, void* y) {
    const IeeeFloatMode mode;
    const auto scale = Form::decode_scale(e, s);
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t words[Form::kWords];
      for (std::size_t w = 0; w < Form::kWords; ++w) words[w] = take(sum + Form::kWords * i + w, order);
      store(Form::decode(words, scale, keep, keep ? load(y, i) : Element{}), y, i);
    }
  }
  static void flags(const Codec&, const void* x, std::size_t n, Store store, std::uint32_t* dst) {
    if (store != Store::kAdd) std::memset(dst, 0, Form::kWords * n * sizeof(*dst));
    if constexpr (Form::kIsFloat) {
      for (std::size_t i = 0; i < n; ++i) {
        if (const std::uint32_t flag = Form::flag(load(x, i))) put(dst + Form::kWords * i, flag, store);
      }
    }
  }
  static void apply_flags(const Codec&, const std::uint32_t* sum, std::size_t n, Order order, bool clear, void* y) {
    const IeeeFloatMode mode;
    if constexpr (Form::kIsFloat) {
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t flag = take(sum + Form::kWords * i, order);
        store(Form::flagged(flag, clear, clear ? Element{} : load(y, i)), y, i);
      }
    }
  }
};

struct SimdInt32 : ElementByElement<IntegerForm<std::uint32_t>> {
  static std::size_t encode(const Codec& c, const void* x, std::size_t n, std::uint8_t, Scale, Store store,
                            std::uint32_t* dst) {
    c.encode_int32(static_cast<const std::uint32_t*>(x), n, store, dst);
    return 0;
  }
  static void decode(const Codec& c, const std::uint32_t* sum, std::size_t n, std::uint8_t, Scale, Order order, bool,
                     void* y) {
    c.decode_int32(sum, n, order, static_cast<std::uint32_t*>(y));
  }
};

template <typename Form>
void decode_streaming(const Codec& c, const std::uint32_t* sum, std::size_t n, std::uint8_t e, Scale s, Order order,
                      void* y) {
  if constexpr (requires { Form::decode_streaming; }) {
    Form::decode_streaming(c, sum, n, e, s, order, y);
  } else {
    Form::decode(c, sum, n, e, s, order, false, y);
  }
}

template <typename Form>
constexpr decltype(ElementCodec::exchange) exchange_of() {
  if constexpr (requires { Form::exchange; }) return Form::exchange;
  return nullptr;
}

template <typename Form>
constexpr decltype(ElementCodec::encode_at_random) encode_at_random_of() {
  if constexpr (requires { Form::encode_at_random; }) return Form::encode_at_random;
  return nullptr;
}

template <typename Form>
constexpr ElementCodec make(ElementType type, std::size_t size, std::size_t words, bool is_float) {
  return {type,
          size,
          words,
          is_float,
          Form::exponent,
          Form::finite_exponent,
          Form::encode,
          encode_at_random_of<Form>(),
          Form::decode,
          decode_streaming<Form>,
          exchange_of<Form>(),
          Form::flags,
          Form::apply_flags};
}

constexpr ElementCodec kCodecs[] = {
    make<OneWordFloat<&Codec::float32>>(ElementType::kFloat32, 4, 1, true),
    make<SimdInt32>(ElementType::kInt32, 4, 1, false),
    make<OneWordFloat<&Codec::float16>>(ElementType::kFloat16, 2, 1, true),
    make<OneWordFloat<&Codec::bfloat16>>(ElementType::kBfloat16, 2, 1, true),
    make<ElementByElement<Float64Form>>(ElementType::kFloat64, 8, kFloat64Limbs, true),
    make<ElementByElement<IntegerForm<std::uint8_t>>>(ElementType::kInt8, 1, 1, false),
    make<ElementByElement<IntegerForm<std::uint16_t>>>(ElementType::kInt16, 2, 1, false),
    make<ElementByElement<IntegerForm<std::uint64_t>>>(ElementType::kInt64, 8, 4, false),
    make<ElementByElement<WideFloatForm<Float32>>>(ElementType::kWideFloat32, 4, 2, true),
    make<ElementByElement<WideFloatForm<Float16>>>(ElementType::kWideFloat16, 2, 2, true),
    make<ElementByElement<WideFloatForm<Bfloat16>>>(ElementType::kWideBfloat16, 2, 2, true),
};

}  // namespace

const ElementCodec& element_codec(ElementType type) { return kCodecs[static_cast<std::size_t>(type) - 1]; }

ElementType in_bits(ElementType type, std::int64_t bits) {
  if (bits == 32) return type;
  switch (type) {
    case ElementType::kFloat32: return ElementType::kWideFloat32;
    case ElementType::kFloat16: return ElementType::kWideFloat16;
    case ElementType::kBfloat16: return ElementType::kWideBfloat16;
    default: return type;
  }
}

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
    case ElementType::kWideFloat32: return "float32 in 64 bits";
    case ElementType::kWideFloat16: return "float16 in 64 bits";
    case ElementType::kWideBfloat16: return "bfloat16 in 64 bits";
  }
  return "unknown";
}

}  // namespace jaxina::numerics
