// Feeds the aggregators a sequence of packets. Most have headers with numbers near sensible ones; some are raw bytes. A
// few lines of bookkeeping say what every result must contain. One aggregator serves all inputs, and its jobs begin
// anew with each input. Nothing here allocates for each packet, because under the sanitizers that would take most of
// the time.
#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <memory>
#include <vector>

#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/packets.h"
#include "tests/fuzz/passes.h"
#include "tests/native/small_shape.h"

using namespace jaxina;
using fuzz::address_of;
using fuzz::kMaxPacket;
using fuzz::Packet;
using fuzz::require;
using testing::SmallShape;

namespace {

const JobSpec kJobs[] = {
    {.job = 1, .secret = 11, .shape = SmallShape{.slots = 2, .block_size = 4, .blocks_per_chunk = 2}.of(2)},
    {.job = 2, .secret = 22, .shape = SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1}.of(3)},
    {.job = 3, .secret = 33, .shape = SmallShape{.slots = 1, .block_size = 2, .blocks_per_chunk = 1}.of(4)},
};
// The format that most updates of a pass have. The last job has no narrow words, so it must refuse them.
wire::Format format_of(std::uint32_t job, std::uint32_t slot, std::uint32_t epoch) {
  return job == 3 ? wire::Format::kInt32 : static_cast<wire::Format>((3 - job + slot + epoch) % 4);
}
// Switches combine updates of the last job. Its groups lie in, around, across and beside each other. Sets of workers
// are bit masks here.
constexpr std::uint32_t kCombinedJob = 3;
constexpr std::uint32_t kGroups[] = {0b0011, 0b1100, 0b0110, 0b1111};
constexpr std::uint8_t kSwitches[] = {2, 3};

CombiningSwitches switches_of(const JobSpec& job) {
  CombiningSwitches switches;
  if (job.job != kCombinedJob) return switches;
  for (const std::uint32_t group : kGroups) switches.groups.push_back({group});
  for (const std::uint8_t host : kSwitches) switches.addresses.push_back(address_of(host));
  return switches;
}

// The workers whose contributions a packet may carry; 0: it may not count.
std::uint32_t workers_of(const wire::Header& header, std::uint8_t from) {
  if (header.kind == wire::Kind::kUpdate) {
    return header.worker < kJobs[header.job - 1].shape.workers() ? 1u << header.worker : 0;
  }
  if (header.kind != wire::Kind::kCombined || header.job != kCombinedJob) return 0;
  const bool trusted = std::find(std::begin(kSwitches), std::end(kSwitches), from) != std::end(kSwitches);
  const std::uint32_t group = std::uint32_t{header.worker} - wire::kFirstGroup;
  return trusted && group < std::size(kGroups) ? kGroups[group] : 0;
}

constexpr std::size_t kMaxElements = 32, kMaxExponents = 8;  // the most that a pass of any job may have

// The sum of the packets of one pass that the aggregator has counted. No worker is in two of them.
struct Sum {
  std::uint32_t job, slot, epoch;
  std::uint32_t workers = 0, exponent_count = 0;
  fuzz::WordSum<kMaxElements> words{};
  std::array<std::uint8_t, kMaxExponents> exponents{};
};

std::uint32_t everybody(std::uint32_t job) { return (1u << kJobs[job - 1].shape.workers()) - 1; }

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
    require(wire::is_reply(header.kind));
    if (header.kind != wire::Kind::kResult) return;
    const Sum* sum = find(header);
    require(sum != nullptr && sum->workers == everybody(header.job));
    require(header.words == sum->words.words && header.exponents == sum->exponent_count);
    require(header.format == sum->words.format);
    require(sum->words.is_sum(packet.data() + wire::packet_size(0, header.exponents),
                              kJobs[header.job - 1].shape.workers()));
    require(std::equal(wire::exponents_of(packet.data()), wire::exponents_of(packet.data()) + header.exponents,
                       sum->exponents.begin()));
  }
  std::vector<Sum> sums;
  std::uint64_t counted = 0;  // packets
};

// Adds a packet to the sum. If it has workers that the sum has too, then it may only stand for them all.
void book(Sum& sum, const wire::Header& header, std::span<const std::uint8_t> bytes, std::uint32_t workers) {
  if (sum.workers & workers) sum = {sum.job, sum.slot, sum.epoch};
  const std::uint8_t* words = bytes.data() + wire::packet_size(0, header.exponents);
  if (sum.workers == 0) {
    sum.words.begin(header, words);
    sum.exponent_count = header.exponents;
  }
  sum.workers |= workers;
  sum.words.add(words);
  for (std::size_t i = 0; i < header.exponents; ++i) {
    sum.exponents[i] = std::max(sum.exponents[i], wire::exponents_of(bytes.data())[i]);
  }
}

// Gives the aggregator a packet, and keeps the books. The contribution is booked before the aggregator sees the packet,
// because the result of the last update is sent at once. If the aggregator does not count it, the booking is undone.
void deliver(DatagramAggregator& aggregator, Checker& checker, std::span<const std::uint8_t> bytes, std::uint8_t from) {
  wire::Header header;
  const bool valid = wire::parse(bytes, header) == wire::ParseResult::kOk;
  const Aggregator* const known = valid ? aggregator.find(header.job) : nullptr;
  if (known == nullptr) return aggregator.on_packet(bytes, address_of(from), checker);
  const auto updates = [known] { return known->counters()[Counter::kUpdates]; };
  const std::uint64_t before = updates();
  const std::uint32_t workers = workers_of(header, from);
  if (workers == 0 || !fuzz::may_have(known->shape(), header)) {
    aggregator.on_packet(bytes, address_of(from), checker);
    return require(updates() == before);
  }
  Sum* sum = checker.find(header);
  if (sum == nullptr) sum = &checker.sums.emplace_back(Sum{header.job, header.slot, header.epoch});
  const Sum old = *sum;
  const std::uint32_t more = workers & ~old.workers;
  const bool counts_nobody_twice = more == workers || (workers & old.workers) == old.workers;
  // A pass that is complete stays as it is: only its result may be sent again.
  const bool of_one_size = old.workers == 0 || (old.words.words == header.words && old.words.format == header.format &&
                                                old.exponent_count == header.exponents);
  const bool may_count =
      more != 0 && counts_nobody_twice && of_one_size && header.secret == kJobs[header.job - 1].secret;
  if (may_count) book(*sum, header, bytes, workers);
  aggregator.on_packet(bytes, address_of(from), checker);
  if (updates() == before) return void(*sum = old);
  require(may_count && updates() == before + static_cast<std::uint32_t>(std::popcount(more)));
  ++checker.counted;
}

void draw_packet(fuzz::Input& input, Packet& packet) {
  packet.from = static_cast<std::uint8_t>(input.below(4));
  if (input.below(16) == 0) {
    packet.size = input.below(120);
    for (std::size_t i = 0; i < packet.size; ++i) packet.bytes[i] = input.byte();
    return;
  }
  const JobSpec& job = kJobs[input.below(std::size(kJobs))];
  const std::uint8_t choice = input.byte(), oddity = choice & 0x7f;
  const bool of_group = job.job == kCombinedJob && choice >= 0x80;
  const wire::Kind kind = of_group ? wire::Kind::kCombined : wire::Kind::kUpdate;
  const std::uint32_t senders = of_group ? std::size(kGroups) : job.shape.workers();
  const std::uint32_t sender = input.below(oddity == 4 ? 256 : senders);
  wire::Header header{.kind = oddity == 1 ? static_cast<wire::Kind>(1 + input.below(6)) : kind,
                      .job = oddity == 2 ? input.below(5) : job.job,
                      .secret = oddity == 3 ? input.word() : job.secret,
                      .worker = static_cast<std::uint16_t>(of_group ? wire::kFirstGroup + sender : sender),
                      .slot = static_cast<std::uint16_t>(input.below(oddity == 5 ? 256 : job.shape.slots())),
                      .epoch = oddity == 6 ? static_cast<std::uint32_t>(input.word()) : input.below(8),
                      .fingerprint = oddity == 7 ? input.below(3) : 1,
                      .words = static_cast<std::uint16_t>(oddity == 8 ? input.below(12) : 2),
                      .exponents = static_cast<std::uint8_t>(oddity == 9 ? input.below(6) : 1),
                      .code = 0};
  header.format =
      oddity == 12 ? static_cast<wire::Format>(input.below(4)) : format_of(header.job, header.slot, header.epoch);
  const bool narrow = wire::is_narrow(header.format);
  if (narrow && oddity != 8) ++header.words;
  packet.size = wire::packet_size(header.words, header.exponents);
  for (std::size_t i = wire::kHeaderSize; i < packet.size; ++i) packet.bytes[i] = input.byte();
  const std::size_t seed = wire::packet_size(0, header.exponents);
  if (narrow && packet.bytes[seed] < 0x80)
    std::fill_n(&packet.bytes[seed], std::min<std::size_t>(packet.size - seed, 8), 0);
  wire::seal(header, packet.bytes.data(), packet.size);
  if (oddity == 10) packet.bytes[input.below(static_cast<std::uint32_t>(packet.size))] ^= input.byte();
  if (oddity == 11) packet.size = input.below(static_cast<std::uint32_t>(packet.size) + 8);
}

// Returns how many packets these counters account for, except those that were counted as contributions.
std::uint64_t not_counted(const Counters& counters) {
  std::uint64_t sum = 0;
  counters.for_each([&](Counter counter, std::uint64_t value) { sum += counts_datagrams(counter) ? value : 0; });
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
  checker.counted = 0;
  for (const JobSpec& job : kJobs) {
    aggregator.remove(job.job);
    require(aggregator.add(std::make_unique<DatagramJob>(job, Shard{}, switches_of(job))));
  }
  const std::uint64_t without_job_before = not_counted(aggregator.without_job());
  std::uint64_t packets = 0;
  while (!input.empty()) {
    if (!sent.empty() && input.below(4) == 0) {
      const Packet replayed = sent[input.below(static_cast<std::uint32_t>(sent.size()))];
      sent.push_back(replayed);
      sent.back().from = static_cast<std::uint8_t>(input.below(4));
    } else {
      draw_packet(input, sent.emplace_back());
    }
    const Packet& packet = sent.back();
    std::uint8_t* place = arrived.get() + kMaxPacket - packet.size;
    std::copy_n(packet.bytes.begin(), packet.size, place);
    deliver(aggregator, checker, {place, packet.size}, packet.from);
    ++packets;
  }
  std::uint64_t counted = checker.counted + not_counted(aggregator.without_job()) - without_job_before;
  for (const JobSpec& job : kJobs) counted += not_counted(aggregator.find(job.job)->counters());
  require(counted == packets);
  return 0;
}
