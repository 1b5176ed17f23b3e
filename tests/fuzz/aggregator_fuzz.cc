// The aggregator fed with a sequence of packets: headers with numbers near the sensible ones, raw bytes now and then.
// A few lines of bookkeeping say what every result must hold.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "tests/fuzz/input.h"

using namespace jaxina;
using fuzz::require;

namespace {

constexpr JobSpec kJobs[] = {
    {.job = 1, .secret = 11, .workers = 2, .slots = 2, .block_size = 2, .blocks_per_chunk = 2},
    {.job = 2, .secret = 22, .workers = 3, .slots = 1, .block_size = 4, .blocks_per_chunk = 1},
};

struct Sum {
  std::uint32_t count = 0;
  std::vector<std::uint32_t> words;
  std::vector<std::uint8_t> exponents;
};

std::uint32_t word_at(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

struct Checker final : Aggregator::Output {
  void send(const Address& to, std::span<const std::uint8_t> packet) override {
    wire::Header header;
    require(to.size > 0 && wire::parse(packet, header) == wire::ParseResult::kOk);
    require(header.kind != wire::Kind::kUpdate);
    if (header.kind != wire::Kind::kResult) return;
    const auto found = sums.find({header.job, header.slot, header.epoch});
    require(found != sums.end());
    const Sum& sum = found->second;
    require(sum.count == kJobs[header.job - 1].workers);
    require(header.words == sum.words.size() && header.exponents == sum.exponents.size());
    for (std::size_t i = 0; i < sum.words.size(); ++i) {
      require(word_at(packet.data() + wire::packet_size(i, header.exponents)) == sum.words[i]);
    }
    require(std::equal(sum.exponents.begin(), sum.exponents.end(), wire::exponents_of(packet.data())));
  }
  std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint32_t>, Sum> sums;
};

// The contribution is entered before the aggregator sees the packet and taken back if it is not counted, because the
// result of the last one is sent at once.
void deliver(Aggregator& aggregator, Checker& checker, const std::vector<std::uint8_t>& bytes, std::uint8_t from) {
  Address address;
  address.bytes[0] = from;
  address.size = 1;
  wire::Header header;
  const bool update = wire::parse(bytes, header) == wire::ParseResult::kOk && header.kind == wire::Kind::kUpdate;
  const JobCounters* counters = update ? aggregator.counters(header.job) : nullptr;
  if (counters == nullptr) return aggregator.on_packet(bytes, address, checker);
  const std::uint64_t before = counters->updates;
  Sum& sum = checker.sums[{header.job, header.slot, header.epoch}];
  const Sum old = sum;
  ++sum.count;
  sum.words.resize(std::max<std::size_t>(sum.words.size(), header.words));
  sum.exponents.resize(std::max<std::size_t>(sum.exponents.size(), header.exponents));
  for (std::size_t i = 0; i < header.words; ++i) sum.words[i] += word_at(&bytes[wire::packet_size(i, header.exponents)]);
  for (std::size_t i = 0; i < header.exponents; ++i) {
    sum.exponents[i] = std::max(sum.exponents[i], wire::exponents_of(bytes.data())[i]);
  }
  const std::uint32_t n = header.job == 1 || header.job == 2 ? kJobs[header.job - 1].workers : 0;
  if (old.count == n) sum = old;  // complete already: only its result may be asked for
  aggregator.on_packet(bytes, address, checker);
  require(counters->updates == before || counters->updates == before + 1);
  if (counters->updates == before) sum = old;
  require(counters->updates == before || header.secret == kJobs[header.job - 1].secret);
}

std::vector<std::uint8_t> draw_packet(fuzz::Input& input) {
  if (input.below(16) == 0) {
    std::vector<std::uint8_t> raw(input.below(120));
    for (std::uint8_t& byte : raw) byte = input.byte();
    return raw;
  }
  const JobSpec& job = kJobs[input.below(2)];
  const std::uint8_t oddity = input.byte();
  wire::Header header{.kind = oddity == 1 ? static_cast<wire::Kind>(1 + input.below(5)) : wire::Kind::kUpdate,
                      .job = oddity == 2 ? input.below(4) : job.job,
                      .secret = oddity == 3 ? input.word() : job.secret,
                      .worker = static_cast<std::uint16_t>(input.below(oddity == 4 ? 256 : job.workers)),
                      .slot = static_cast<std::uint16_t>(input.below(oddity == 5 ? 256 : job.slots)),
                      .epoch = oddity == 6 ? static_cast<std::uint32_t>(input.word()) : input.below(8),
                      .fingerprint = oddity == 7 ? input.below(3) : 1,
                      .words = static_cast<std::uint16_t>(oddity == 8 ? input.below(12) : 2),
                      .exponents = static_cast<std::uint8_t>(oddity == 9 ? input.below(6) : 1),
                      .code = 0};
  std::vector<std::uint8_t> packet(wire::packet_size(header.words, header.exponents));
  for (std::size_t i = wire::kHeaderSize; i < packet.size(); ++i) packet[i] = input.byte();
  wire::seal(header, packet.data(), packet.size());
  if (oddity == 10) packet[input.below(static_cast<std::uint32_t>(packet.size()))] ^= input.byte();
  if (oddity == 11) packet.resize(input.below(static_cast<std::uint32_t>(packet.size()) + 8));
  return packet;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Aggregator aggregator;
  Checker checker;
  for (const JobSpec& job : kJobs) require(aggregator.add_job(job).ok());
  std::vector<std::vector<std::uint8_t>> sent;
  std::uint64_t packets = 0;
  while (!input.empty()) {
    const bool replay = !sent.empty() && input.below(4) == 0;
    sent.push_back(replay ? sent[input.below(static_cast<std::uint32_t>(sent.size()))] : draw_packet(input));
    deliver(aggregator, checker, sent.back(), static_cast<std::uint8_t>(input.below(4)));
    ++packets;
  }
  std::uint64_t counted = 0;
  for (const JobSpec& job : kJobs) counted += aggregator.counters(job.job)->updates + aggregator.counters(job.job)->duplicates;
  for (const std::uint64_t rejected : aggregator.rejects()) counted += rejected;
  require(counted == packets);
  return 0;
}
