// Feeds the aggregators a sequence of packets. Most have headers with numbers near sensible ones; some are raw bytes. A
// few lines of bookkeeping say what every result must contain. One aggregator serves all inputs, and its jobs begin
// anew with each input. Nothing here allocates for each packet, because under the sanitizers that would take most of
// the time.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "tests/fuzz/input.h"

using namespace jaxina;
using fuzz::require;

namespace {

JobShape shape_of(std::uint32_t workers, std::uint32_t slots, std::uint32_t block_size,
                  std::uint32_t blocks_per_chunk) {
  return JobShape({.devices = workers,
                   .workers = workers,
                   .slots = slots,
                   .block_size = block_size,
                   .blocks_per_chunk = blocks_per_chunk,
                   .widest_element = 1});
}

const JobSpec kJobs[] = {
    {.job = 1, .secret = 11, .shape = shape_of(2, 2, 2, 2)},
    {.job = 2, .secret = 22, .shape = shape_of(3, 1, 4, 1)},
};
constexpr std::size_t kMaxWords = 4, kMaxExponents = 2;  // the most that a pass of either job may have
constexpr std::size_t kMaxPacket = 128;

struct Packet {
  std::array<std::uint8_t, kMaxPacket> bytes;
  std::size_t size = 0;
};

// The sum of the updates of one pass that the aggregator has counted.
struct Sum {
  std::uint32_t job, slot, epoch;
  std::uint32_t count = 0, size = 0, exponent_count = 0;
  std::array<std::uint32_t, kMaxWords> words{};
  std::array<std::uint8_t, kMaxExponents> exponents{};
};

std::uint32_t word_at(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

struct Checker final : PacketOutput {
  Sum* find(const wire::Header& header) {
    for (Sum& sum : sums) {
      if (sum.job == header.job && sum.slot == header.slot && sum.epoch == header.epoch) return &sum;
    }
    return nullptr;
  }
  void send(const Address& to, std::span<const std::uint8_t> packet) override {
    wire::Header header;
    require(to.size > 0 && wire::parse(packet, header) == wire::ParseResult::kOk);
    require(header.kind != wire::Kind::kUpdate);
    if (header.kind != wire::Kind::kResult) return;
    const Sum* sum = find(header);
    require(sum != nullptr && sum->count == kJobs[header.job - 1].shape.workers());
    require(header.words == sum->size && header.exponents == sum->exponent_count);
    for (std::size_t i = 0; i < sum->size; ++i) {
      require(word_at(packet.data() + wire::packet_size(i, header.exponents)) == sum->words[i]);
    }
    require(std::equal(wire::exponents_of(packet.data()), wire::exponents_of(packet.data()) + header.exponents,
                       sum->exponents.begin()));
  }
  std::vector<Sum> sums;
};

// Gives the aggregator a packet, and keeps the books. The contribution is booked before the aggregator sees the packet,
// because the result of the last update is sent at once. If the aggregator does not count it, the booking is undone.
void deliver(DatagramAggregator& aggregator, Checker& checker, std::span<const std::uint8_t> bytes, std::uint8_t from) {
  Address address;
  address.bytes[0] = from;
  address.size = 1;
  wire::Header header;
  const bool update = wire::parse(bytes, header) == wire::ParseResult::kOk && header.kind == wire::Kind::kUpdate;
  const Aggregator* const known = update ? aggregator.find(header.job) : nullptr;
  if (known == nullptr) return aggregator.on_packet(bytes, address, checker);
  const auto updates = [known] { return known->counters()[Counter::kUpdates]; };
  const std::uint64_t before = updates();
  if (header.words > kMaxWords || header.exponents > kMaxExponents) {
    aggregator.on_packet(bytes, address, checker);
    return require(updates() == before);
  }
  Sum* sum = checker.find(header);
  if (sum == nullptr) sum = &checker.sums.emplace_back(Sum{header.job, header.slot, header.epoch});
  const Sum old = *sum;
  const JobSpec& job = kJobs[header.job - 1];
  if (old.count < job.shape.workers()) {  // otherwise the pass is complete, and only its result may be sent again
    ++sum->count;
    sum->size = std::max<std::uint32_t>(sum->size, header.words);
    sum->exponent_count = std::max<std::uint32_t>(sum->exponent_count, header.exponents);
    for (std::size_t i = 0; i < header.words; ++i)
      sum->words[i] += word_at(&bytes[wire::packet_size(i, header.exponents)]);
    for (std::size_t i = 0; i < header.exponents; ++i) {
      sum->exponents[i] = std::max(sum->exponents[i], wire::exponents_of(bytes.data())[i]);
    }
  }
  aggregator.on_packet(bytes, address, checker);
  require(updates() == before || (updates() == before + 1 && old.count < job.shape.workers()));
  if (updates() == before) *sum = old;
  require(updates() == before || header.secret == job.secret);
}

void draw_packet(fuzz::Input& input, Packet& packet) {
  if (input.below(16) == 0) {
    packet.size = input.below(120);
    for (std::size_t i = 0; i < packet.size; ++i) packet.bytes[i] = input.byte();
    return;
  }
  const JobSpec& job = kJobs[input.below(2)];
  const std::uint8_t oddity = input.byte();
  wire::Header header{.kind = oddity == 1 ? static_cast<wire::Kind>(1 + input.below(5)) : wire::Kind::kUpdate,
                      .job = oddity == 2 ? input.below(4) : job.job,
                      .secret = oddity == 3 ? input.word() : job.secret,
                      .worker = static_cast<std::uint16_t>(input.below(oddity == 4 ? 256 : job.shape.workers())),
                      .slot = static_cast<std::uint16_t>(input.below(oddity == 5 ? 256 : job.shape.slots())),
                      .epoch = oddity == 6 ? static_cast<std::uint32_t>(input.word()) : input.below(8),
                      .fingerprint = oddity == 7 ? input.below(3) : 1,
                      .words = static_cast<std::uint16_t>(oddity == 8 ? input.below(12) : 2),
                      .exponents = static_cast<std::uint8_t>(oddity == 9 ? input.below(6) : 1),
                      .code = 0};
  packet.size = wire::packet_size(header.words, header.exponents);
  for (std::size_t i = wire::kHeaderSize; i < packet.size; ++i) packet.bytes[i] = input.byte();
  wire::seal(header, packet.bytes.data(), packet.size);
  if (oddity == 10) packet.bytes[input.below(static_cast<std::uint32_t>(packet.size))] ^= input.byte();
  if (oddity == 11) packet.size = input.below(static_cast<std::uint32_t>(packet.size) + 8);
}

// Returns how many packets these counters account for.
std::uint64_t total(const Counters& counters) {
  std::uint64_t sum = counters[Counter::kUpdates] + counters[Counter::kDuplicates];
  counters.for_each([&](Counter counter, std::uint64_t value) { sum += is_reject(counter) ? value : 0; });
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static DatagramAggregator aggregator;
  static Checker checker;
  static std::vector<Packet> sent;
  // Every packet ends where this memory ends, so that the address sanitizer notices a read beyond it.
  static const std::unique_ptr<std::uint8_t[]> arrived(new std::uint8_t[kMaxPacket]);

  fuzz::Input input(data, size);
  sent.clear();
  checker.sums.clear();
  for (const JobSpec& job : kJobs) {
    aggregator.remove(job.job);
    require(aggregator.add(std::make_unique<DatagramJob>(job, Shard{})));
  }
  const std::uint64_t without_job_before = total(aggregator.without_job());
  std::uint64_t packets = 0;
  while (!input.empty()) {
    if (!sent.empty() && input.below(4) == 0) {
      const Packet replayed = sent[input.below(static_cast<std::uint32_t>(sent.size()))];
      sent.push_back(replayed);
    } else {
      draw_packet(input, sent.emplace_back());
    }
    const Packet& packet = sent.back();
    std::uint8_t* place = arrived.get() + kMaxPacket - packet.size;
    std::copy_n(packet.bytes.begin(), packet.size, place);
    deliver(aggregator, checker, {place, packet.size}, static_cast<std::uint8_t>(input.below(4)));
    ++packets;
  }
  std::uint64_t counted = total(aggregator.without_job()) - without_job_before;
  for (const JobSpec& job : kJobs) counted += total(aggregator.find(job.job)->counters());
  require(counted == packets);
  return 0;
}
