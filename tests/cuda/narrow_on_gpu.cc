#include "tests/cuda/narrow_on_gpu.h"

#include "tests/cuda/on_gpu.h"

namespace jaxina::cuda::on_gpu {
namespace {

// Calls body(format) for types, words, block sizes and byte orders.
template <class Body>
void for_each_format(Body body) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16}) {
    for (const WireWord word : {WireWord::kInt16, WireWord::kInt8}) {
      for (const std::uint32_t block_size : {60u, 256u}) {
        for (const Order order : {Order::kHost, Order::kBigEndian}) body(Format{type, block_size, 1, word, order});
      }
    }
  }
}

void check_division(Stream stream, const Format& format, Division division, bool keep) {
  auto tensors = tensors_of(format, WireWord::kInt32, below(2) == 1, 6);
  std::vector<DequantizeRun> runs;
  std::vector<std::vector<std::uint8_t>> expected;
  for (auto& tensor : tensors) {
    std::vector<std::uint8_t> exponents;
    set_exponents(format, *tensor, exponents);
    std::vector<std::uint32_t> sums(words_for(format, tensor->count));
    const auto unused = 32 - static_cast<std::uint32_t>(numerics::bits_of(format.word)) - division.bits;
    for (std::uint32_t& sum : sums) {
      sum = static_cast<std::uint32_t>(static_cast<std::int32_t>(random_bits()) >> unused);
    }
    tensor->words.put(stored(sums, WireWord::kInt32, format.order));
    numerics::codec().shift(sums.data(), sums.size(), division.bits, {division.stochastic, tensor->seed});
    expected.push_back(tensor->host);
    cpu_values(format, sums, tensor->count, exponents, keep, expected.back());
    runs.push_back({tensor->words.data(), tensor->count, tensor->exponents.data(), tensor->x.data(), tensor->seed});
  }
  must(divide_and_dequantize(stream, format, runs, division, keep));
  must(cudaStreamSynchronize(stream), "running the kernels");
  const std::string name = name_of(format) + " divided by " + std::to_string(division.bits) + " bits" +
                           (division.stochastic ? " stochastic" : "") + (keep ? ", keeping" : "");
  for (std::size_t t = 0; t < tensors.size(); ++t) compare(name, tensors[t]->x.get(), expected[t]);
}

// What the CPU codec's flags are in 2 bits each; `y` gets the values that they stand for.
std::vector<std::uint8_t> cpu_packed_flags(const Format& format, const Tensor& tensor, bool clear,
                                           std::vector<std::uint8_t>& y) {
  const ElementCodec& codec = numerics::element_codec(format.type);
  const std::size_t of_block = numerics::packed_flags_size(format.block_size);
  std::vector<std::uint32_t> packed(of_block * blocks_for(format, tensor.count)), flags(format.block_size);
  for (std::size_t b = 0; b < blocks_for(format, tensor.count); ++b) {
    const std::size_t first = b * format.block_size, n = std::min<std::size_t>(format.block_size, tensor.count - first);
    codec.flags(numerics::codec(), &tensor.host[first * codec.size], n, Store::kWrite, flags.data());
    codec.apply_flags(numerics::codec(), flags.data(), n, Order::kHost, clear, &y[first * codec.size]);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t plus = (flags[i] & 0xffff) != 0 ? 1 : 0, minus = (flags[i] >> 16) != 0 ? 2 : 0;
      packed[b * of_block + i / 16] |= (plus | minus) << (2 * (i % 16));
    }
  }
  return stored(packed, WireWord::kInt32, format.order);
}

}  // namespace

void check_divisions(Stream stream) {
  for_each_format([&](Format format) {
    for (const Division division : {Division{0, false}, {1, false}, {3, true}, {10, false}, {10, true}}) {
      format.shift = division.bits + static_cast<std::uint32_t>(below(3));
      for (const bool keep : {false, true}) check_division(stream, format, division, keep);
    }
  });
}

void check_packed_flags(Stream stream) {
  for_each_format([&](const Format& format) {
    for (const bool clear : {false, true}) {
      auto tensors = tensors_of(format, WireWord::kInt32, below(2) == 1, 6);
      std::vector<FlagRun> find;
      std::vector<ApplyFlagRun> apply;
      std::vector<std::unique_ptr<DeviceBytes>> flags;
      for (auto& tensor : tensors) {
        const std::size_t words = numerics::packed_flags_size(format.block_size) * blocks_for(format, tensor->count);
        flags.push_back(std::make_unique<DeviceBytes>(4 * words, 4 * below(4)));
        find.push_back({tensor->x.data(), tensor->count, flags.back()->data()});
        apply.push_back({flags.back()->data(), tensor->count, tensor->x.data()});
      }
      must(non_finite_flags(stream, format, find));
      must(apply_non_finite_flags(stream, format, apply, clear));
      must(cudaStreamSynchronize(stream), "running the kernels");
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        std::vector<std::uint8_t> values = tensors[t]->host;
        compare(name_of(format) + " packed flags", flags[t]->get(),
                cpu_packed_flags(format, *tensors[t], clear, values));
        compare(name_of(format) + " apply packed flags", tensors[t]->x.get(), values);
      }
    }
  });
}

}  // namespace jaxina::cuda::on_gpu
