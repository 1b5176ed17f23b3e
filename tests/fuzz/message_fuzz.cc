// Feeds an aggregator of RDMA messages a sequence of messages: most have numbers near sensible ones, and lie in one to
// five packets, of which some are lost. A few lines of bookkeeping say what every result must contain, and what its
// check must be. Each input has a job of its own.
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <vector>

#include "rdma_engine/messages/message_aggregator.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/passes.h"
#include "tests/native/small_shape.h"

using namespace jaxina;
using fuzz::require;
using fuzz::word_at;
using testing::SmallShape;

namespace {

const JobShape kShapes[] = {
    SmallShape{.slots = 2, .block_size = 4, .blocks_per_chunk = 2}.of(2),
    SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1}.of(3),
    SmallShape{.slots = 1, .block_size = 2, .blocks_per_chunk = 2}.of(2),  // no narrow words
    SmallShape{.slots = 1, .block_size = 4, .blocks_per_chunk = 1, .whole_chunks = true}.of(2),
};
constexpr std::size_t kMaxWorkers = 3, kMaxElements = 32, kMaxExponents = 8, kMaxMessage = 128, kMtu = 16;
constexpr std::uint32_t kRkey = 0x5eed;

struct Message {
  wire::Header pass;  // what the message says: worker, slot, epoch, fingerprint, words, exponents and format
  roce::Headers headers;
  std::uint32_t queue = 0;
  std::array<std::uint8_t, kMaxMessage> bytes{};
  std::size_t size = 0;
  bool too_short = false;  // for its check and exponents
  std::uint32_t lost = 0;  // a bit mask of its packets
};

// The sums of words with weights that fall by 1, and without (numerics/linear_check.h).
using Check = std::array<std::uint32_t, 2>;
Check checksums(const std::uint8_t* bytes, std::size_t words) {
  Check sums{};
  const std::size_t first = (words + 15) / 16 * 16;
  for (std::size_t i = 0; i < words; ++i) {
    sums[0] += word_at(bytes + 4 * i);
    sums[1] += static_cast<std::uint32_t>(first - i) * word_at(bytes + 4 * i);
  }
  return sums;
}

struct Sum {
  std::uint32_t slot, epoch;
  std::uint32_t workers = 0;
  fuzz::WordSum<kMaxElements> words{};
  std::size_t exponent_count = 0;
  std::array<std::uint8_t, kMaxExponents> exponents{};
  Check check{};  // of the updates, without the checksums of their words
};

class Fuzzed final : public MessageAggregator::Output {
 public:
  void run(fuzz::Input& input);
  void send(const roce::Write& write, std::size_t mtu, std::uint32_t& psn) override;

 private:
  void connect();
  Message draw(fuzz::Input& input) const;
  void deliver(const Message& message);
  void book(Sum& sum, const Message& message) const;
  std::size_t check_words() const { return shape_->whole_chunks() ? 0 : 2; }
  Sum& sum_of(const wire::Header& pass);

  MessageAggregator aggregator_{2};
  const JobShape* shape_ = nullptr;
  std::array<std::uint32_t, kMaxWorkers> first_qpn_{};
  std::vector<Sum> sums_;
  const Message* current_ = nullptr;
  std::uint32_t next_psn_ = 0;  // of all queue pairs; never one that a queue pair still waits for
};

Sum& Fuzzed::sum_of(const wire::Header& pass) {
  for (Sum& sum : sums_) {
    if (sum.slot == pass.slot && sum.epoch == pass.epoch) return sum;
  }
  return sums_.emplace_back(Sum{pass.slot, pass.epoch});
}

void Fuzzed::connect() {
  aggregator_.remove(1);
  require(aggregator_.add(std::make_unique<MessageJob>(JobSpec{.job = 1, .secret = 11, .shape = *shape_}, kRkey)));
  const roce::MessageLayout layout(*shape_);
  for (std::uint32_t worker = 0; worker < shape_->workers(); ++worker) {
    auto connection = std::make_unique<MessageJob::Connection>();
    connection->worker = worker;
    connection->mtu = kMtu;
    for (std::uint32_t i = 0; i < layout.queues(); ++i) connection->remote.qpns.push_back(i);
    connection->queues.resize(layout.queues());
    const MessageJob::Connection& made = *connection;
    aggregator_.connect(1, std::move(connection));
    first_qpn_[worker] = made.first_qpn;
  }
}

Message Fuzzed::draw(fuzz::Input& input) const {
  Message message;
  wire::Header& pass = message.pass;
  const std::uint8_t oddity = input.byte() & 0x7f;
  pass.worker = static_cast<std::uint16_t>(input.below(shape_->workers()));
  pass.slot = static_cast<std::uint16_t>(input.below(shape_->slots()));
  pass.epoch = oddity == 1 ? static_cast<std::uint32_t>(input.word()) : input.below(8);
  pass.fingerprint = oddity == 2 ? input.below(3) : 1;
  pass.format = static_cast<wire::Format>(oddity == 3 ? input.below(4) : (2 + pass.slot + pass.epoch) % 4);
  if (oddity != 3 && !shape_->may_be_narrow()) pass.format = wire::Format::kInt32;
  const bool narrow = wire::is_narrow(pass.format);
  pass.words = static_cast<std::uint16_t>(oddity == 4 ? input.below(14) : narrow ? 3 : 2);
  pass.exponents = static_cast<std::uint8_t>(oddity == 5 ? input.below(12) : 1);
  message.size = 4 * (pass.words + check_words()) + wire::padded(pass.exponents);
  if (oddity == 10) {
    const std::size_t least = 4 * check_words() + wire::padded(pass.exponents);
    message.size = 4 * input.below(6);
    message.too_short = message.size < least;
    if (!message.too_short) pass.words = static_cast<std::uint16_t>((message.size - least) / 4);
  }
  for (std::size_t i = 0; i < message.size; ++i) message.bytes[i] = input.byte();
  if (narrow && message.bytes[0] < 0x80) std::fill_n(message.bytes.begin(), 8, 0);  // rounded to nearest
  message.queue = pass.slot;
  message.headers = {.address = roce::address_of({pass.epoch, pass.slot, pass.exponents, pass.format}),
                     .rkey = kRkey,
                     .length = static_cast<std::uint32_t>(message.size),
                     .immediate = pass.fingerprint};
  if (oddity == 6) message.headers.rkey ^= 1;
  if (oddity == 7) message.headers.length += 4;
  if (oddity == 8) message.headers.address |= 4u << input.below(6);
  if (oddity == 9) message.queue = input.below(shape_->slots() + 1);
  if (oddity >= 0x70) message.lost = input.byte();
  return message;
}

// Adds a message to the sum of its pass.
void Fuzzed::book(Sum& sum, const Message& message) const {
  const wire::Header& pass = message.pass;
  if (sum.workers == 0) {
    sum.words.begin(pass, message.bytes.data());
    sum.exponent_count = pass.exponents;
  }
  sum.workers |= 1u << pass.worker;
  sum.words.add(message.bytes.data());
  const Check sums = checksums(message.bytes.data(), pass.words);
  const std::uint8_t* check = message.bytes.data() + 4 * pass.words;
  for (std::size_t i = 0; i < check_words(); ++i) sum.check[i] += word_at(check + 4 * i) - sums[i];
  const std::uint8_t* exponents = check + 4 * check_words();
  for (std::size_t i = 0; i < pass.exponents; ++i) sum.exponents[i] = std::max(sum.exponents[i], exponents[i]);
}

// Sends the packets of a message that are not lost, and keeps the books, as in aggregator_fuzz.cc.
void Fuzzed::deliver(const Message& message) {
  const wire::Header& pass = message.pass;
  const Counters& counters = aggregator_.find(1)->aggregator().counters();
  const std::uint64_t before = counters[Counter::kUpdates];
  const std::size_t packets = std::max<std::size_t>(1, (message.size + kMtu - 1) / kMtu);
  const bool whole = (message.lost & ((1u << packets) - 1)) == 0 && message.headers.length == message.size;
  const bool named =
      message.headers.rkey == kRkey && message.queue == pass.slot && roce::pass_at(message.headers.address).has_value();
  Sum& sum = sum_of(pass);
  const Sum old = sum;
  const bool of_one_size = old.workers == 0 || (old.words.words == pass.words && old.words.format == pass.format &&
                                                old.exponent_count == pass.exponents);
  const bool may_count = whole && named && !message.too_short && of_one_size && (old.workers >> pass.worker & 1) == 0 &&
                         fuzz::may_have(*shape_, pass);
  if (may_count) book(sum, message);
  current_ = &message;
  for (std::size_t i = 0; i < packets; ++i) {
    require(counters[Counter::kUpdates] == before);
    if (message.lost >> i & 1) {
      ++next_psn_;
      continue;
    }
    const bool first = i == 0, last = i + 1 == packets;
    roce::Headers headers = message.headers;
    headers.opcode = first && last ? roce::Opcode::kWriteOnlyImm
                     : first       ? roce::Opcode::kWriteFirst
                     : last        ? roce::Opcode::kWriteLastImm
                                   : roce::Opcode::kWriteMiddle;
    headers.qpn = first_qpn_[pass.worker] + message.queue;
    headers.psn = next_psn_++;
    const std::size_t begin = i * kMtu, size = std::min(kMtu, message.size - begin);
    aggregator_.on_packet({headers, {message.bytes.data() + begin, size}, 0}, *this);
  }
  if (counters[Counter::kUpdates] == before) sum_of(pass) = old;
  else require(may_count && counters[Counter::kUpdates] == before + 1);
}

// A result must be that of the pass whose message is being delivered.
void Fuzzed::send(const roce::Write& write, std::size_t, std::uint32_t&) {
  if (write.qpn == shape_->slots()) return;  // a notice
  const wire::Header& pass = current_->pass;
  const Sum& sum = sum_of(pass);
  require(write.qpn == pass.slot && write.immediate == pass.fingerprint);
  require(sum.workers == (1u << shape_->workers()) - 1);
  require(write.head.size() == 4 * (sum.words.words + check_words()));
  require(sum.words.is_sum(write.head.data(), shape_->workers()));
  require(write.tail.size() == wire::padded(sum.exponent_count));
  require(std::equal(write.tail.begin(), write.tail.begin() + static_cast<std::ptrdiff_t>(sum.exponent_count),
                     sum.exponents.begin()));
  Check expected = checksums(write.head.data(), sum.words.words);
  expected[0] += digest({sum.exponents.data(), sum.exponent_count});
  for (std::size_t i = 0; i < check_words(); ++i) {
    require(word_at(write.head.data() + 4 * (sum.words.words + i)) == sum.check[i] + expected[i]);
  }
}

void Fuzzed::run(fuzz::Input& input) {
  shape_ = &kShapes[input.below(std::size(kShapes))];
  sums_.clear();
  next_psn_ = 0;
  connect();
  std::vector<Message> sent;
  while (!input.empty()) {
    if (!sent.empty() && input.below(4) == 0) {
      const Message again = sent[input.below(static_cast<std::uint32_t>(sent.size()))];
      sent.push_back(again);
      sent.back().lost = 0;
    } else {
      sent.push_back(draw(input));
    }
    deliver(sent.back());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Fuzzed fuzzed;
  fuzz::Input input(data, size);
  fuzzed.run(input);
  return 0;
}
