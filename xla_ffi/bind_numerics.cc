// Binds jaxina._native.numerics: the codec on NumPy arrays, block by block, for tests and studies.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rdma_engine/errors.h"
#include "rdma_engine/numerics/codec.h"
#include "rdma_engine/numerics/element_forms.h"
#include "rdma_engine/numerics/float_mode.h"
#include "xla_ffi/bindings.h"

namespace jaxina {

namespace nb = nanobind;

namespace {

using numerics::Codec;
using numerics::Order;
using numerics::Scale;
using numerics::Store;

template <class T>
using Input = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::numpy, nb::ndim<1>>;

template <class T>
Output<T> new_array(std::size_t size) {
  auto data = std::make_unique<T[]>(std::max<std::size_t>(size, 1));
  T* raw = data.get();
  const nb::capsule owner(raw, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  data.release();
  return Output<T>(raw, {size}, owner);
}

const Codec& runnable(const std::string& name) {
  if (const Codec* codec = numerics::codec_named(name)) return *codec;
  throw Error(ErrorCode::kInvalidArgument, "this processor runs no codec named " + name + "; see codec_names()");
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const char* name : {"scalar", "avx2", "avx512"}) {
    if (numerics::codec_named(name) != nullptr) names.emplace_back(name);
  }
  return names;
}

Scale checked_scale(std::uint32_t workers) {
  if (workers == 0 || workers > numerics::kMaxWorkers) {
    throw Error(ErrorCode::kTooManyWorkers, "the format allows 1 to " + std::to_string(numerics::kMaxWorkers) +
                                                " workers, not " + std::to_string(workers));
  }
  return numerics::scale_for(workers);
}

void check_block_size(std::size_t block_size) {
  if (block_size == 0) throw Error(ErrorCode::kInvalidArgument, "block_size must be at least 1");
}

// Calls body(block, first element, elements) for each block of `count` elements.
template <class Body>
void for_each_block(std::size_t count, std::size_t block_size, Body body) {
  for (std::size_t first = 0, block = 0; first < count; first += block_size, ++block) {
    body(block, first, std::min(block_size, count - first));
  }
}

void check_exponents(const Input<std::uint8_t>& exponents, std::size_t count, std::size_t block_size) {
  check_block_size(block_size);
  const std::size_t blocks = count / block_size + (count % block_size != 0 ? 1 : 0);
  if (exponents.size() != blocks) {
    throw Error(ErrorCode::kInvalidArgument, std::to_string(count) + " elements are " + std::to_string(blocks) +
                                                 " blocks, but " + std::to_string(exponents.size()) +
                                                 " exponents were given");
  }
  const auto* end = exponents.data() + exponents.size();
  if (std::find(exponents.data(), end, numerics::kNonFiniteExponent) != end) {
    throw Error(ErrorCode::kInvalidArgument, "exponent 255 (NaN or Inf) has no scale; use the finite values' exponent");
  }
}

Output<std::uint8_t> block_exponents(const std::string& codec_name, const Input<float>& x, std::size_t block_size,
                                     bool finite_only) {
  const Codec& codec = runnable(codec_name);
  check_block_size(block_size);
  const auto exponent = finite_only ? codec.float32.finite_exponent : codec.float32.exponent;
  std::vector<std::uint8_t> exponents;
  for_each_block(x.size(), block_size, [&](std::size_t, std::size_t first, std::size_t size) {
    exponents.push_back(exponent(x.data() + first, size));
  });
  auto result = new_array<std::uint8_t>(exponents.size());
  std::copy(exponents.begin(), exponents.end(), result.data());
  return result;
}

Output<std::int32_t> quantize(const std::string& codec_name, const Input<float>& x,
                              const Input<std::uint8_t>& exponents, std::uint32_t workers, std::size_t block_size) {
  const Codec& codec = runnable(codec_name);
  const Scale scale = checked_scale(workers);
  check_exponents(exponents, x.size(), block_size);
  auto words = new_array<std::int32_t>(x.size());
  auto* dst = reinterpret_cast<std::uint32_t*>(words.data());
  for_each_block(x.size(), block_size, [&](std::size_t block, std::size_t first, std::size_t size) {
    codec.float32.quantize(x.data() + first, size, exponents.data()[block], scale, Store::kWrite, dst + first);
  });
  return words;
}

Output<float> dequantize(const std::string& codec_name, const Input<std::int32_t>& words,
                         const Input<std::uint8_t>& exponents, std::uint32_t workers, std::size_t block_size) {
  const Codec& codec = runnable(codec_name);
  const Scale scale = checked_scale(workers);
  check_exponents(exponents, words.size(), block_size);
  auto y = new_array<float>(words.size());
  const auto* sum = reinterpret_cast<const std::uint32_t*>(words.data());
  for_each_block(words.size(), block_size, [&](std::size_t block, std::size_t first, std::size_t size) {
    codec.float32.dequantize(sum + first, size, exponents.data()[block], scale, Order::kHost, false, y.data() + first);
  });
  return y;
}

// ---- The arithmetic of element_forms.h, which the GPU's kernels run: words of 8, 16 or 32 bits, and stochastic
// rounding.

using Float32Form = numerics::FloatForm<numerics::Float32>;

Scale scale_of(std::uint32_t workers, int word_bits, std::int32_t shift) {
  const Scale whole = checked_scale(workers);
  if (word_bits == 32 && shift == 0) return whole;
  if (word_bits != 8 && word_bits != 16) {
    throw Error(ErrorCode::kInvalidArgument, "words have 8, 16 or 32 bits, and those of 32 are not shifted");
  }
  if (shift < 0 || shift > numerics::kMaxNarrowShift) {
    throw Error(ErrorCode::kInvalidArgument,
                "sums are shifted by 0 to " + std::to_string(numerics::kMaxNarrowShift) + " bits");
  }
  return numerics::narrow_scale(static_cast<numerics::WireWord>(word_bits / 8), shift);
}

Output<std::int32_t> encode_elements(const Input<float>& x, const Input<std::uint8_t>& exponents,
                                     std::size_t block_size, int word_bits, std::uint32_t workers,
                                     std::optional<std::uint64_t> seed) {
  const Scale scale = scale_of(workers, word_bits, 0);
  check_exponents(exponents, x.size(), block_size);
  const numerics::IeeeFloatMode mode;
  auto words = new_array<std::int32_t>(x.size());
  for_each_block(x.size(), block_size, [&](std::size_t block, std::size_t first, std::size_t size) {
    const auto block_scale = Float32Form::encode_scale(exponents.data()[block], scale);
    for (std::size_t i = first; i < first + size; ++i) {
      const numerics::Float32 element{std::bit_cast<std::uint32_t>(x.data()[i])};
      std::uint32_t word;
      if (seed) Float32Form::encode_at_random(element, block_scale, numerics::random_word(*seed, i), &word);
      else Float32Form::encode(element, block_scale, &word);
      words.data()[i] = static_cast<std::int32_t>(word);
    }
  });
  return words;
}

Output<float> decode_elements(const Input<std::int32_t>& words, const Input<std::uint8_t>& exponents,
                              std::size_t block_size, int word_bits, std::uint32_t workers, std::int32_t shift) {
  const Scale scale = scale_of(workers, word_bits, shift);
  check_exponents(exponents, words.size(), block_size);
  const numerics::IeeeFloatMode mode;
  auto y = new_array<float>(words.size());
  for_each_block(words.size(), block_size, [&](std::size_t block, std::size_t first, std::size_t size) {
    const auto block_scale = Float32Form::decode_scale(exponents.data()[block], scale);
    for (std::size_t i = first; i < first + size; ++i) {
      const auto word = static_cast<std::uint32_t>(words.data()[i]);
      y.data()[i] = std::bit_cast<float>(Float32Form::decode(&word, block_scale, false, {}).bits);
    }
  });
  return y;
}

Output<std::uint32_t> non_finite_flags(const std::string& codec_name, const Input<float>& x) {
  auto flags = new_array<std::uint32_t>(x.size());
  runnable(codec_name).float32.non_finite_flags(x.data(), x.size(), Store::kWrite, flags.data());
  return flags;
}

Output<float> apply_non_finite_flags(const std::string& codec_name, const Input<std::uint32_t>& flags,
                                     const Input<float>& y) {
  if (flags.size() != y.size()) {
    throw Error(ErrorCode::kInvalidArgument, "flags and values differ in size: " + std::to_string(flags.size()) +
                                                 " and " + std::to_string(y.size()));
  }
  auto result = new_array<float>(y.size());
  std::copy(y.data(), y.data() + y.size(), result.data());
  runnable(codec_name).float32.apply_non_finite_flags(flags.data(), flags.size(), Order::kHost, false, result.data());
  return result;
}

}  // namespace

void bind_numerics(nb::module_& m) {
  using namespace nb::literals;
  nb::module_ numerics = m.def_submodule(
      "numerics",
      "The native codecs on NumPy arrays, for tests and studies. jaxina.numerics is their specification, and gives the "
      "same bits.\n\n"
      "Arrays are one-dimensional, C-contiguous and on the CPU. N elements are ceil(N / block_size) blocks; only the "
      "last may be short. `codec` is one of codec_names(). Functions raise InvalidArgumentError for another codec, a "
      "block_size of 0, a wrong number of exponents or the exponent 255 (NaN or Inf), and TooManyWorkersError unless "
      "workers is 1 to MAX_WORKERS.");
  numerics.def("codec_names", codec_names, "The codec's variants that this processor can run, slowest first.");
  numerics.def(
      "codec_name", [] { return std::string(numerics::codec().name); },
      "The codec's variant that jaxina uses in this process (see JAXINA_CODEC).");
  numerics.def("block_exponents", block_exponents, "codec"_a, "x"_a, "block_size"_a, "finite_only"_a = false,
               "Finds the exponent byte of each block.\n\n"
               "Args:\n"
               "  codec: the variant that computes it.\n"
               "  x: float32[N].\n"
               "  block_size: elements in a block.\n"
               "  finite_only: whether to leave NaN and Inf out. Otherwise their block's exponent is 255.\n\n"
               "Returns:\n"
               "  uint8[ceil(N / block_size)].");
  numerics.def("quantize", quantize, "codec"_a, "x"_a, "exponents"_a, "workers"_a, "block_size"_a,
               "Converts floats to fixed-point words. NaN and Inf become 0.\n\n"
               "Args:\n"
               "  codec: the variant that computes it.\n"
               "  x: float32[N].\n"
               "  exponents: uint8[ceil(N / block_size)], for each block the maximum over all workers.\n"
               "  workers: n, how many summands there are.\n"
               "  block_size: elements in a block.\n\n"
               "Returns:\n"
               "  int32[N].");
  numerics.def("dequantize", dequantize, "codec"_a, "words"_a, "exponents"_a, "workers"_a, "block_size"_a,
               "Converts summed words back to floats.\n\n"
               "Args:\n"
               "  codec: the variant that computes it.\n"
               "  words: int32[N], the sum over all workers.\n"
               "  exponents: uint8[ceil(N / block_size)], those that the words were quantized with.\n"
               "  workers: n, how many summands there are.\n"
               "  block_size: elements in a block.\n\n"
               "Returns:\n"
               "  float32[N].");
  numerics.def(
      "encode_elements", encode_elements, "x"_a, "exponents"_a, "block_size"_a, "word_bits"_a, "workers"_a = 1,
      "seed"_a = nb::none(),
      "Converts floats to fixed-point words of any width, element by element, with the arithmetic that the GPU's "
      "kernels run. NaN and Inf become 0.\n\n"
      "Args:\n"
      "  x: float32[N].\n"
      "  exponents: uint8[ceil(N / block_size)], for each block the maximum over all workers.\n"
      "  block_size: elements in a block.\n"
      "  word_bits: 8, 16 or 32; InvalidArgumentError for others.\n"
      "  workers: n, how many summands words of 32 bits leave room for. Narrow words leave none.\n"
      "  seed: 64 bits for stochastic rounding, see jaxina.numerics.random_words; None rounds to nearest.\n\n"
      "Returns:\n"
      "  int32[N]; each word fits word_bits bits.");
  numerics.def("decode_elements", decode_elements, "words"_a, "exponents"_a, "block_size"_a, "word_bits"_a,
               "workers"_a = 1, "shift"_a = 0,
               "Converts summed words back to floats, element by element, with the arithmetic that the GPU's kernels "
               "run.\n\n"
               "Args:\n"
               "  words: int32[N], the sum over all workers.\n"
               "  exponents: uint8[ceil(N / block_size)], those that the words were encoded with.\n"
               "  block_size: elements in a block.\n"
               "  word_bits, workers: those of encode_elements().\n"
               "  shift: by how many bits sums of narrow words have been divided, see jaxina.numerics.round_shift.\n\n"
               "Returns:\n"
               "  float32[N].");
  numerics.def("non_finite_flags", non_finite_flags, "codec"_a, "x"_a,
               "Turns NaN and Inf into words that can be added: +Inf is 1 in the low half, -Inf is 1 in the high half, "
               "NaN is both. Finite elements give 0.\n\n"
               "Args:\n"
               "  codec: the variant that computes it.\n"
               "  x: float32[N].\n\n"
               "Returns:\n"
               "  uint32[N].");
  numerics.def("apply_non_finite_flags", apply_non_finite_flags, "codec"_a, "flags"_a, "y"_a,
               "Writes NaN, Inf and -Inf where the summed flags say so, by the rules of IEEE addition (Inf - Inf = "
               "NaN).\n\n"
               "Args:\n"
               "  codec: the variant that computes it.\n"
               "  flags: uint32[N], the sum of all workers' flags.\n"
               "  y: float32[N]; it is not changed.\n\n"
               "Returns:\n"
               "  float32[N], y with the non-finite elements.\n\n"
               "Raises:\n"
               "  InvalidArgumentError: if the arrays differ in size.");
}

}  // namespace jaxina
