// What the passes carry: exponents, words and flags, straight between the tensors and a packet or slot.
#include <algorithm>
#include <cstring>

#include "rdma_engine/worker/worker.h"

namespace jaxina {
namespace {

// Calls visit(first element, elements, block in the chunk) for each block of a span.
template <typename Visit>
void for_each_block(const Span& span, std::size_t block_size, Visit visit) {
  for (std::size_t done = 0, block = span.first_block; done < span.elements; done += block_size, ++block) {
    visit(span.first_element + done, std::min(block_size, span.elements - done), block);
  }
}

const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.in); }
const std::uint32_t* integers(const Tensor& tensor) { return static_cast<const std::uint32_t*>(tensor.in); }

}  // namespace

void Worker::fill_exponents(const Pass& pass, std::uint8_t* out, bool merge) const {
  if (pass.exponents == 0) return;
  const Slot& slot = slots_[pass.slot];
  const auto exponent_of = pass.phase == Phase::kFlags ? codec_.finite_exponent : codec_.exponent;
  entry(slot.collective).layout.for_each_span(*announced_chunk(slot), [&](const Span& span) {
    for_each_block(span, config_.geometry.block_size, [&](std::size_t first, std::size_t count, std::size_t block) {
      const bool is_float = span.tensor->type == ElementType::kFloat32;
      const std::uint8_t exponent = is_float ? exponent_of(floats(*span.tensor) + first, count) : 0;
      out[block] = merge ? std::max(out[block], exponent) : exponent;
    });
  });
}

void Worker::fill_words(const Pass& pass, std::uint32_t* words, numerics::Store store) const {
  if (pass.words == 0) return;
  const Slot& slot = slots_[pass.slot];
  const std::size_t k = config_.geometry.block_size;
  const std::uint8_t* global = exponents(pass.slot);
  const bool writes = store != numerics::Store::kAdd;
  const auto zero = [&](std::size_t begin, std::size_t end) {
    if (writes && end > begin) std::memset(words + begin, 0, 4 * (end - begin));
  };
  std::size_t written = 0;  // words from here to the next span are padding after a tensor's last block
  entry(slot.collective).layout.for_each_span(slot.chunk, [&](const Span& span) {
    const std::size_t begin = span.first_block * k;
    zero(written, begin);
    written = begin + span.elements;
    if (span.tensor->type == ElementType::kInt32) {
      if (pass.phase == Phase::kFlags) return zero(begin, written);
      codec_.encode_int32(integers(*span.tensor) + span.first_element, span.elements, store, words + begin);
      return;
    }
    const float* x = floats(*span.tensor);
    if (pass.phase == Phase::kFlags) {
      codec_.non_finite_flags(x + span.first_element, span.elements, store, words + begin);
      return;
    }
    for_each_block(span, k, [&](std::size_t first, std::size_t count, std::size_t block) {
      codec_.quantize(x + first, count, global[block], scale_, store, words + block * k);
    });
  });
}

void Worker::decode_flags(std::size_t index, const Result& result) {
  const Slot& slot = slots_[index];
  entry(slot.collective).layout.for_each_span(slot.chunk, [&](const Span& span) {
    if (span.tensor->type != ElementType::kFloat32) return;
    const bool in_place = span.tensor->in == span.tensor->out;
    codec_.apply_non_finite_flags(result.word_data + span.first_block * config_.geometry.block_size, span.elements,
                                  result.order, !in_place,
                                  static_cast<float*>(span.tensor->out) + span.first_element);
  });
  slots_[index].flagged = true;
}

void Worker::decode_data(std::size_t index, const Result& result) {
  Slot& slot = slots_[index];
  const std::size_t k = config_.geometry.block_size;
  const std::uint8_t* global = exponents(index);
  entry(slot.collective).layout.for_each_span(slot.chunk, [&](const Span& span) {
    if (span.tensor->type == ElementType::kInt32) {
      codec_.decode_int32(result.word_data + span.first_block * k, span.elements, result.order,
                          static_cast<std::uint32_t*>(span.tensor->out) + span.first_element);
      return;
    }
    float* y = static_cast<float*>(span.tensor->out);
    for_each_block(span, k, [&](std::size_t first, std::size_t count, std::size_t block) {
      codec_.dequantize(result.word_data + block * k, count, global[block], scale_, result.order, slot.flagged,
                        y + first);
    });
  });
  slot.flagged = false;
}

}  // namespace jaxina
