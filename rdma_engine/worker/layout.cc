#include "rdma_engine/worker/layout.h"

#include <cstring>
#include <string>

#include "rdma_engine/base/assert.h"

namespace jaxina {

using numerics::WireWord;

namespace {

void check_narrow(const JobShape& shape, std::size_t devices) {
  if (shape.block_size() % numerics::kNarrowBlockStep != 0) {
    throw Error(ErrorCode::kInvalidArgument, "words of 8 or 16 bits need a block size that is a multiple of " +
                                                 std::to_string(numerics::kNarrowBlockStep) + ", not " +
                                                 std::to_string(shape.block_size()) + ": change JAXINA_BLOCK_SIZE");
  }
  if (!shape.may_be_narrow()) {
    throw Error(ErrorCode::kInvalidArgument,
                "this switch adds words of 32 bits only: use bits=32, or a switch in software");
  }
  // Processes of other sizes would divide their words by other numbers, and their sums would not fit a word. If the
  // processes differ, at least one finds it, and no sum is complete without that one.
  if (devices * shape.workers() != shape.devices()) {
    throw Error(ErrorCode::kInvalidArgument,
                "words of 8 or 16 bits need equally many devices in each process, and this one has " +
                    std::to_string(devices) + " of the " + std::to_string(shape.devices()) + " devices of " +
                    std::to_string(shape.workers()) + " processes: use bits=32");
  }
}

}  // namespace

std::uint32_t fingerprint(const Collective& collective) {
  std::uint32_t result = mix(mix(0, collective.identity), collective.tensors.size());
  for (const Tensor& tensor : collective.tensors) {
    result = mix(mix(result, static_cast<std::uint64_t>(tensor.type)), tensor.count);
    if (tensor.word != WireWord::kInt32) result = mix(result, static_cast<std::uint64_t>(tensor.word));
  }
  if (collective.rounding.stochastic) result = mix(result, collective.rounding.seed);
  return result;
}

Layout::Layout(std::vector<Collective> contributions, const JobShape& shape, Packing packing)
    : contributions_(std::move(contributions)),
      shape_(shape),
      narrow_blocks_before_(contributions_.front().narrow_blocks_before),
      fingerprint_(jaxina::fingerprint(contributions_.front())) {
  cuts_.reserve(contributions_.front().tensors.size());
  narrow_.blocks_per_chunk = rest_.blocks_per_chunk = shape_.blocks_per_chunk();
  narrow_.words_per_block = rest_.words_per_block = shape_.block_size();
  add_tensors(true);
  close(narrow_, 0);
  if (narrow_.blocks > 0) {
    check_narrow(shape_, contributions_.size());
    if (packing == Packing::kNone) {
      throw Error(ErrorCode::kInvalidArgument,
                  "this aggregator adds words of 32 bits only: use bits=32, or another aggregator");
    }
    if (packing == Packing::kPacked) {
      const WireWord word = cuts_.front().word;
      narrow_.blocks_per_chunk = shape_.narrow_blocks_per_chunk(word);
      narrow_.words_per_block = shape_.narrow_block_words(word);
      narrow_.format = word == WireWord::kInt16 ? wire::Format::kInt16 : wire::Format::kInt8;
      close(narrow_, 0);
    }
  }
  add_tensors(false);
  close(rest_, narrow_.chunks);
  chunks_ = narrow_.chunks + rest_.chunks;
}

// Appends the tensors whose words are narrow, or all others.
void Layout::add_tensors(bool narrow) {
  Section& section = narrow ? narrow_ : rest_;
  section.first_block = blocks_;
  const std::vector<Tensor>& tensors = contributions_.front().tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Tensor& tensor = tensors[t];
    if ((tensor.word != WireWord::kInt32) != narrow) continue;
    const numerics::ElementCodec& codec = numerics::element_codec(tensor.type);
    JAXINA_ASSERT(!narrow || numerics::may_be_narrow(tensor.type));
    const std::size_t per_block = shape_.block_size() / codec.words;
    cuts_.push_back({&codec, t, per_block, tensor.count, tensor.word, blocks_});
    JAXINA_ASSERT(!narrow || tensor.word == cuts_.front().word);
    const std::size_t blocks = (tensor.count + per_block - 1) / per_block;
    blocks_ += blocks;
    section.blocks += blocks;
    has_exponents_ = has_exponents_ || codec.is_float;
  }
}

void Layout::close(Section& section, std::size_t first_chunk) {
  section.first_chunk = first_chunk;
  section.chunks = (section.blocks + section.blocks_per_chunk - 1) / section.blocks_per_chunk;
}

std::size_t Layout::blocks_in(std::size_t chunk) const {
  const Section& section = section_of(chunk);
  const std::size_t begin = (chunk - section.first_chunk) * section.blocks_per_chunk;
  return std::min(section.blocks_per_chunk, section.blocks - begin);
}

std::size_t Layout::words_in(std::size_t chunk, bool flags) const {
  const Section& section = section_of(chunk);
  const std::size_t blocks = blocks_in(chunk);
  if (format_of(chunk, flags) == wire::Format::kFlags) return blocks * flag_words(shape_);
  if (shape_.whole_chunks()) return shape_.words_per_chunk();
  const std::size_t last = first_block_of(chunk) + blocks - 1;
  const Block block = describe(cut_at(last), last, blocks - 1);
  return (wire::is_narrow(section.format) ? wire::kSeedWords : 0) + block.first_word + block.words;
}

wire::Format Layout::format_of(std::size_t chunk, bool flags) const {
  const wire::Format format = section_of(chunk).format;
  return flags && wire::is_narrow(format) ? wire::Format::kFlags : format;
}

std::size_t Layout::cut_at(std::size_t block) const {
  // The last tensor that starts at or before the block. An empty tensor starts where the next one does, so the search
  // skips it.
  const auto after = std::upper_bound(cuts_.begin(), cuts_.end(), block,
                                      [](std::size_t value, const Cut& cut) { return value < cut.first_block; });
  return static_cast<std::size_t>(after - cuts_.begin()) - 1;
}

std::uint32_t digest(std::span<const std::uint8_t> exponents) {
  std::uint32_t result = 0;
  for (std::size_t done = 0; done < exponents.size(); done += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, exponents.data() + done, std::min(exponents.size() - done, sizeof(word)));
    result = mix(result, word);
  }
  return result;
}

}  // namespace jaxina
