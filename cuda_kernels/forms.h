// Dispatches from the run-time types of a Format to the types of forms and words for which kernels are compiled.
#pragma once

#include <type_traits>

#include "cuda_kernels/block_fixed_point.h"
#include "rdma_engine/numerics/element_forms.h"

namespace jaxina::cuda {

template <class T>
struct TypeTag {
  using type = T;
};

// Calls use(tag of the form) for a floating-point type and returns its result. For an integer type, returns a default
// value without a call.
template <class Use>
auto with_float_form(numerics::ElementType type, Use use) {
  using numerics::ElementType;
  using Result = decltype(use(TypeTag<numerics::Float64Form>{}));
  switch (type) {
    case ElementType::kFloat32: return use(TypeTag<numerics::FloatForm<numerics::Float32>>{});
    case ElementType::kFloat16: return use(TypeTag<numerics::FloatForm<numerics::Float16>>{});
    case ElementType::kBfloat16: return use(TypeTag<numerics::FloatForm<numerics::Bfloat16>>{});
    case ElementType::kWideFloat32: return use(TypeTag<numerics::WideFloatForm<numerics::Float32>>{});
    case ElementType::kWideFloat16: return use(TypeTag<numerics::WideFloatForm<numerics::Float16>>{});
    case ElementType::kWideBfloat16: return use(TypeTag<numerics::WideFloatForm<numerics::Bfloat16>>{});
    case ElementType::kFloat64: return use(TypeTag<numerics::Float64Form>{});
    default: return Result{};
  }
}

// Calls use(tag of the form) for any type and returns its result.
template <class Use>
auto with_form(numerics::ElementType type, Use use) {
  using numerics::ElementType;
  switch (type) {
    case ElementType::kInt8: return use(TypeTag<numerics::IntegerForm<std::uint8_t>>{});
    case ElementType::kInt16: return use(TypeTag<numerics::IntegerForm<std::uint16_t>>{});
    case ElementType::kInt32: return use(TypeTag<numerics::IntegerForm<std::uint32_t>>{});
    case ElementType::kInt64: return use(TypeTag<numerics::IntegerForm<std::uint64_t>>{});
    default: return with_float_form(type, use);
  }
}

// Whether a form has narrow words and stochastic rounding. For other forms plan() refuses both.
template <class Form>
inline constexpr bool kHasWireFormats = Form::kIsFloat && Form::kWords == 1;

// Calls use(tag of the form) for a type that has narrow words and returns its result. For others, returns a default
// value without a call.
template <class Use>
auto with_narrow_form(numerics::ElementType type, Use use) {
  return with_float_form(type, [&](auto form) {
    if constexpr (kHasWireFormats<typename decltype(form)::type>) return use(form);
    else return decltype(use(TypeTag<numerics::FloatForm<numerics::Float32>>{})){};
  });
}

// Calls use(tag of the form, tag of the word).
template <class Use>
auto with_form_and_word(const Format& format, Use use) {
  return with_form(format.type, [&](auto form) {
    using Form = typename decltype(form)::type;
    if constexpr (kHasWireFormats<Form>) {
      if (format.word == numerics::WireWord::kInt16) return use(form, TypeTag<std::uint16_t>{});
      if (format.word == numerics::WireWord::kInt8) return use(form, TypeTag<std::uint8_t>{});
    }
    return use(form, TypeTag<std::uint32_t>{});
  });
}

// Calls use(tag of the form, tag of the word, an std::bool_constant: whether to round stochastically).
template <class Use>
auto with_encoding(const Format& format, bool stochastic, Use use) {
  return with_form_and_word(format, [&](auto form, auto word) {
    if constexpr (kHasWireFormats<typename decltype(form)::type>) {
      if (stochastic) return use(form, word, std::true_type{});
    }
    return use(form, word, std::false_type{});
  });
}

}  // namespace jaxina::cuda
