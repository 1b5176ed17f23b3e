#include "rdma_engine/worker/device_payload.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "rdma_engine/base/assert.h"

namespace jaxina {

namespace {

constexpr auto kWhole = numerics::WireWord::kInt32;

// Words of every slot begin at a cache line, so that devices can move whole vectors.
constexpr std::size_t kAlignedWords = 16;

// The word of a tensor's flags: they have 32 bits unless they are packed beside narrow words.
numerics::WireWord word_of_flags(const Layout& layout, std::size_t chunk, const Block& block) {
  return layout.format_of(chunk, true) == wire::Format::kFlags ? block.word : kWhole;
}

}  // namespace

DevicePayload::DevicePayload(std::vector<TensorDevice*> devices, const JobShape& shape, std::uint32_t worker,
                             const NarrowRounding& rounding, const TransportMemory& transport)
    : devices_(std::move(devices)),
      format_{shape.block_size(), shape.devices(), rounding.process_shift() + rounding.sum_shift(),
              rounding.sum_shift()},
      shape_(shape),
      worker_(worker),
      take_turn_(transport.take_turn),
      rounding_(rounding),
      staged_stride_((shape.words_per_pass() + kAlignedWords - 1) / kAlignedWords * kAlignedWords),
      results_(share(transport.results)),
      sent_from_(place_for_words(transport)),
      words_stride_(sent_from_ ? transport.stride / 4 : staged_stride_),
      produced_order_(sent_from_ ? numerics::Order::kBigEndian : numerics::Order::kHost),
      half_(shape.slots()),
      turns_(shape.slots()),
      open_(empty_batch()) {
  const std::size_t words = shape.slots() * staged_stride_;
  const std::size_t exponents = shape.slots() * shape.exponents_per_pass();
  for (TensorDevice* device : devices_) {
    const std::size_t staged = sent_from_ ? 0 : words;
    DeviceMemory memory = device->allocate(4 * staged + exponents);
    auto* first = reinterpret_cast<std::uint32_t*>(memory.get());
    auto* behind = reinterpret_cast<std::uint8_t*>(first + staged);
    staging_.push_back({std::move(memory), sent_from_ ? sent_from_ : first, behind});
  }
  const std::size_t staged = results_ ? 0 : words;
  common_ = devices_.front()->allocate(4 * staged + 2 * exponents);
  if (!results_) sums_ = reinterpret_cast<std::uint32_t*>(common_.get());
  global_ = reinterpret_cast<std::uint8_t*>(common_.get() + 4 * staged);
}

// Returns null if there is no such memory, or if the devices cannot reach it.
DeviceMemory DevicePayload::share(std::span<const std::byte> memory) try {
  return memory.empty() ? nullptr : devices_.front()->share(memory);
} catch (const Error&) {
  return nullptr;
}

// Returns the memory of the messages' words, if the device can write them there. Returns null if they must be staged.
std::uint32_t* DevicePayload::place_for_words(const TransportMemory& transport) {
  if (devices_.size() > 1) return nullptr;  // the words of several devices are added on the way to the message
  std::uint32_t* words = nullptr;
  const bool adopted = transport.adopt && transport.adopt([&] {
    ExportedMemory memory = devices_.front()->allocate_exported(shape_.slots() * transport.stride);
    words = reinterpret_cast<std::uint32_t*>(memory.memory.get());
    return memory;
  });
  if (adopted) return exported_ = words;
  messages_ = share(transport.messages);
  return reinterpret_cast<std::uint32_t*>(messages_.get());
}

DevicePayload::~DevicePayload() {
  for (const Batch& batch : under_way_) {
    for (std::size_t d = 0; d < batch.tickets.size(); ++d) devices_[d]->wait(batch.tickets[d]);
  }
}

// Calls describe(device, first block, elements, the device's tasks) for every run of consecutive blocks of one tensor
// in the chunk.
template <typename Describe>
void DevicePayload::add(const Layout& layout, std::size_t chunk, Describe describe) {
  struct Run {
    Block first;
    std::size_t elements;
  };
  std::vector<Run> runs;
  layout.for_each_block(chunk, [&](const Block& block) {
    if (!runs.empty() && runs.back().first.tensor == block.tensor) runs.back().elements += block.elements;
    else runs.push_back({block, block.elements});
  });
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    for (const Run& run : runs) describe(d, run.first, run.elements, open_.tasks[d]);
  }
}

void DevicePayload::consume_flags(const Layout& layout, std::size_t chunk, Sum sum) {
  add(layout, chunk, [&](std::size_t d, const Block& first, std::size_t elements, std::vector<DeviceTask>& tasks) {
    if (!first.codec->is_float) return;
    std::byte* out = layout.out(d, first);
    // If the sum is in place, the finite elements have not been summed yet, so they must stay.
    const auto work = layout.in(d, first) == out ? DeviceWork::kApplyFlags : DeviceWork::kApplyFlagsClearing;
    const numerics::WireWord word = word_of_flags(layout, chunk, first);
    tasks.push_back({.work = work,
                     .type = first.codec->type,
                     .order = word == kWhole ? sum.order : numerics::Order::kBigEndian,
                     .elements = elements,
                     .tensor = out,
                     .words = const_cast<std::uint32_t*>(sum.words) + flag_place(first, word),
                     .exponents = nullptr,
                     .word = word});
  });
}

void DevicePayload::consume_data(std::size_t slot, const Layout& layout, std::size_t chunk, Sum sum,
                                 bool keep_non_finite) {
  const bool packed = wire::is_narrow(layout.format_of(chunk, false));
  add(layout, chunk, [&](std::size_t d, const Block& first, std::size_t elements, std::vector<DeviceTask>& tasks) {
    const bool divides = first.word != kWhole && !packed;
    const auto work = divides ? (keep_non_finite ? DeviceWork::kDivideKeeping : DeviceWork::kDivide)
                              : (keep_non_finite ? DeviceWork::kDecodeKeeping : DeviceWork::kDecode);
    tasks.push_back({.work = work,
                     .type = first.codec->type,
                     .order = packed ? numerics::Order::kBigEndian : sum.order,
                     .elements = elements,
                     .tensor = layout.out(d, first),
                     .words = const_cast<std::uint32_t*>(sum.words) + first.first_word,
                     .exponents = global(slot) + first.index,
                     .word = first.word,
                     .rounding = divides ? rounding_.of_sum(layout, first) : numerics::Rounding{}});
  });
}

void DevicePayload::produce_exponents(std::size_t slot, const Layout& layout, std::size_t chunk, bool finite_only) {
  const auto work = finite_only ? DeviceWork::kFiniteExponents : DeviceWork::kExponents;
  add(layout, chunk, [&](std::size_t d, const Block& first, std::size_t elements, std::vector<DeviceTask>& tasks) {
    if (!first.codec->is_float) return;
    std::uint8_t* exponents = staging_[d].exponents + slot * shape_.exponents_per_pass() + first.index;
    tasks.push_back({work, first.codec->type, numerics::Order::kHost, elements,
                     const_cast<std::byte*>(layout.in(d, first)), nullptr, exponents});
  });
}

void DevicePayload::produce_flags(std::size_t slot, const Layout& layout, std::size_t chunk) {
  turns_[slot] = {};
  add(layout, chunk, [&](std::size_t d, const Block& first, std::size_t elements, std::vector<DeviceTask>& tasks) {
    if (!first.codec->is_float) return;
    const numerics::WireWord word = word_of_flags(layout, chunk, first);
    tasks.push_back({.work = DeviceWork::kFlags,
                     .type = first.codec->type,
                     .order = word == kWhole ? produced_order_ : numerics::Order::kBigEndian,
                     .elements = elements,
                     .tensor = const_cast<std::byte*>(layout.in(d, first)),
                     .words = staged_words(d, slot) + flag_place(first, word),
                     .exponents = nullptr,
                     .word = word});
  });
  if (words_on_device()) clear_gaps(slot, layout, chunk, true);
}

void DevicePayload::produce_data(std::size_t slot, const Layout& layout, std::size_t chunk,
                                 const std::uint8_t* exponents) {
  // The processor writes the seed of narrow words, so these are not in the device's own memory: only messages without a
  // check are, which have words of 32 bits.
  JAXINA_ASSERT(!words_on_device() || layout.format_of(chunk, false) == wire::Format::kInt32);
  half_[slot] ^= 1;
  std::copy_n(exponents, layout.blocks_in(chunk), global(slot));
  turns_[slot] = {};
  if (takes_turns(layout, chunk)) waiting_ = {&layout, chunk, {}};
  else encode(slot, layout, chunk);
}

// The processor adds the words of several devices, and unpacks narrow ones, so these are staged.
bool DevicePayload::takes_turns(const Layout& layout, std::size_t chunk) const {
  if (!take_turn_ || !reads_results_in_place() || devices_.size() > 1) return false;
  return layout.blocks_of(chunk).block()->word == kWhole;  // all words of a chunk have one width
}

void DevicePayload::mark(const Milestone& milestone) {
  if (!waiting_) return open_.milestones.push_back(milestone);
  waiting_->milestone = milestone;
  (milestone.slot % shape_.workers() == worker_ ? own_first_ : others_first_).push_back(*waiting_);
  waiting_.reset();
}

// Opens the passes whose turn it is. Stops at the first whose turn it is not: the others are most likely not, either.
void DevicePayload::take_turns(std::deque<Contribution>& contributions) {
  while (!contributions.empty()) {
    const Contribution& next = contributions.front();
    const std::uint16_t slot = next.milestone.slot;
    turns_[slot] = take_turn_(slot);
    if (turns_[slot].words == nullptr) return;
    encode(slot, *next.layout, next.chunk);
    open_.milestones.push_back(next.milestone);
    contributions.pop_front();
  }
}

void DevicePayload::encode(std::size_t slot, const Layout& layout, std::size_t chunk) {
  const bool adds = turns_[slot].words != nullptr && !turns_[slot].first;
  add(layout, chunk, [&](std::size_t d, const Block& first, std::size_t elements, std::vector<DeviceTask>& tasks) {
    const bool whole = first.word == kWhole;
    tasks.push_back(
        {.work = adds ? DeviceWork::kEncodeAdding : DeviceWork::kEncode,
         .type = first.codec->type,
         .order = whole ? produced_order_ : numerics::Order::kBigEndian,
         .elements = elements,
         .tensor = const_cast<std::byte*>(layout.in(d, first)),
         .words = const_cast<std::uint32_t*>(words(d, slot)) + (whole ? first.first_word : narrow_place(first)),
         .exponents = global(slot) + first.index,
         .word = first.word,
         .rounding = whole ? numerics::Rounding{} : rounding_.of_device(layout, d, first)});
  });
  if (words_on_device()) clear_gaps(slot, layout, chunk, false);
}

// Makes the device clear the words of a pass that its other tasks do not write, since the processor cannot write there:
// the words up to the next tensor's block, those up to the end, and, with floats_only, the words of integers. Within a
// tensor the device clears gaps by itself (DeviceTask).
void DevicePayload::clear_gaps(std::size_t slot, const Layout& layout, std::size_t chunk, bool floats_only) {
  std::uint32_t* words = staged_words(0, slot);
  std::size_t written = 0;
  std::optional<std::size_t> tensor;
  const auto clear_up_to = [&](std::size_t word) {
    if (word == written) return;
    open_.tasks.front().push_back({DeviceWork::kClear, numerics::ElementType::kInt32, produced_order_, word - written,
                                   nullptr, words + written, nullptr});
  };
  layout.for_each_block(chunk, [&](const Block& block) {
    if (floats_only && !block.codec->is_float) return;
    if (tensor != block.tensor) clear_up_to(block.first_word);
    tensor = block.tensor;
    written = block.first_word + block.words;
  });
  clear_up_to(layout.words_in(chunk, floats_only));
}

// A start takes the processor some microseconds, as much as a device needs for some chunks. Requests come one after the
// other, because results and other workers' turns do. If each were a batch, each would make the next one small, too.
bool DevicePayload::is_worth_a_start(bool busy) {
  const std::size_t requests = open_.milestones.size();
  if (requests >= std::max<std::size_t>(shape_.slots() / 8, 1)) return true;
  if (requests == 0 || busy) return false;
  if (std::exchange(seen_in_open_, requests) != requests) asked_for_ = 0;
  return ++asked_for_ > kPatience;
}

void DevicePayload::start_open(bool busy) {
  if (under_way_.size() == kBatches) return;
  take_turns(own_first_.empty() ? others_first_ : own_first_);
  if (!is_worth_a_start(busy)) return;
  under_way_.push_back(std::exchange(open_, empty_batch()));
  seen_in_open_ = asked_for_ = 0;
  Batch& batch = under_way_.back();
  for (std::size_t d = 0; d < devices_.size() && failure_.ok(); ++d) {
    // Sorted by the kind of work, so that a device processes many tasks of the same kind at once.
    std::stable_sort(batch.tasks[d].begin(), batch.tasks[d].end(),
                     [](const DeviceTask& a, const DeviceTask& b) { return kind_of(a) < kind_of(b); });
    std::uint64_t ticket = 0;
    failure_ = devices_[d]->start(format_, batch.tasks[d], ticket);
    if (failure_.ok()) batch.tickets.push_back(ticket);
  }
}

bool DevicePayload::is_done(const Batch& batch) {
  bool all = true;
  for (std::size_t d = 0; d < devices_.size() && all && failure_.ok(); ++d) {
    failure_ = devices_[d]->is_done(batch.tickets[d], all);
  }
  return all && failure_.ok();
}

}  // namespace jaxina
