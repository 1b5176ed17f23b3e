#include "tests/fuzz/combiner_books.h"

#include <memory>
#include <utility>

#include "tests/fuzz/input.h"

namespace jaxina::fuzz {

namespace {

// Returns how many packets these counters account for.
std::uint64_t accounted(const Counters& counters) {
  std::uint64_t sum = 0;
  counters.for_each([&](Counter counter, std::uint64_t value) { sum += counts_datagrams(counter) ? value : 0; });
  return sum;
}

}  // namespace

void Books::begin() {
  sums_.clear();
  for (std::size_t job = 0; job < kJobCount; ++job) register_again(job);
}

void Books::register_again(std::size_t job) {
  if (const CombinedJob* old = combiner_.find(kJobs[job].job)) accounted_gone_ += accounted(old->counters());
  combiner_.remove(kJobs[job].job);
  require(combiner_.add(std::make_unique<CombinedJob>(kJobs[job])));
  std::erase_if(sums_, [job](const Sum& sum) { return sum.pass.job == kJobs[job].job; });
  contacts_[job].fill({});
  untold_[job] = false;
}

void Books::deliver(std::span<const std::uint8_t> packet, std::uint8_t from) {
  packet_ = packet;
  from_ = address_of(from);
  valid_ = wire::parse(packet, header_) == wire::ParseResult::kOk && header_.job >= 1 && header_.job <= kJobCount &&
           header_.secret == kJobs[header_.job - 1].secret;
  booked_ = !valid_;
  sent_ = told_ = 0;
  if (valid_) {
    job_ = header_.job - 1;
    before_ = combiner_.find(spec().job)->counters();
  }
  const std::size_t own = valid_ ? combiner_.entries_held(spec().job, now_) : 0;
  const std::size_t others = combiner_.entries_held(now_) - own;
  combiner_.on_packet(packet, from_, now_, *this);
  book();
  ++delivered_;
  const std::size_t own_now = valid_ ? combiner_.entries_held(spec().job, now_) : 0;
  require(combiner_.entries_held(now_) - own_now == others);
  if (!valid_) return require(own_now == own);
  require(own_now + grown(Counter::kReleased) == own + grown(Counter::kClaims));
  if (grown(Counter::kCombined) + grown(Counter::kCollisions) + grown(Counter::kPassedOn) > 0) require(sent_ == 1);
  if (grown(Counter::kAbsorbed) > 0) require(sent_ == (sum_of_pass().children == everybody() ? 1 : 0));
  if (grown(Counter::kReplies) > 0) {
    require(header_.kind != wire::Kind::kResult || may_have(spec().shape, header_));
    require(told_ == receivers());
    if (is_result()) untold_[job_] = false;
  }
}

// The children that the switch has heard from and that the reply is for, as a bit mask.
std::uint32_t Books::receivers() const {
  std::uint32_t children = 0;
  for (std::size_t child = 0; child < spec().children.size(); ++child) {
    const bool meant = header_.worker == wire::kAllWorkers || way_to_worker() == child;
    if (meant && contacts_[job_][child].size > 0) children |= 1u << child;
  }
  return children;
}

void Books::end() const {
  std::uint64_t sum = accounted_gone_ + accounted(combiner_.without_job());
  for (const CombinedJobSpec& spec : kJobs) sum += accounted(combiner_.find(spec.job)->counters());
  require(sum == delivered_);
}

Sum& Books::sum_of_pass() {
  const auto found =
      std::find_if(sums_.begin(), sums_.end(), [this](const Sum& sum) { return same_pass(sum.pass, header_); });
  return found != sums_.end() ? *found : sums_.emplace_back(Sum{.pass = header_});
}

// The child whose packet this is.
std::optional<std::size_t> Books::sender() const {
  for (std::size_t child = 0; child < spec().children.size(); ++child) {
    if (spec().children[child].sender == header_.worker) return child;
  }
  return std::nullopt;
}

std::optional<std::size_t> Books::way_to_worker() const {
  for (std::size_t child = 0; child < spec().children.size(); ++child) {
    if (header_.worker < spec().shape.workers() && contains(spec().children[child].workers, header_.worker))
      return child;
  }
  return std::nullopt;
}

// Books what the switch has done with the packet. It must be done before what the switch sends is looked at.
void Books::book() {
  if (std::exchange(booked_, true)) return;
  const bool claims = grown(Counter::kClaims) > 0, joins = grown(Counter::kJoins) > 0;
  const bool is_sum = header_.kind == wire::Kind::kCombined;
  if (grown(Counter::kReleased) > 0) {
    require(header_.kind == wire::Kind::kResult && sum_of_pass().children != 0);
    sum_of_pass().children = 0;
  }
  if (grown(Counter::kPassedOn) > 0) {
    require(!wire::is_reply(header_.kind) && (!is_sum || sender()) && may_have(spec().shape, header_));
    if (const auto way = way_to_worker()) contacts_[job_][*way] = from_;
  }
  if (claims || joins || grown(Counter::kCollisions) > 0) {
    require(sender() && is_sum == (header_.worker >= wire::kFirstGroup));
    contacts_[job_][*sender()] = from_;
  }
  // A duplicate's mark counts as well.
  if (grown(Counter::kAbsorbed) > 0 && wire::is_marked(header_.code)) sum_of_pass().marked = true;
  if (!claims && !joins) return;
  require(!wire::is_reply(header_.kind) && may_have(spec().shape, header_));
  // The sum of a group's narrow words does not fit into such words.
  require(header_.format == wire::Format::kInt32);
  Sum& sum = sum_of_pass();
  if (claims) {
    require(wire::transmission_of(header_.code) == wire::Transmission::kFirst);
    sum = {.pass = header_, .claimed = now_};
  } else {
    require(sum.children != 0 && now_ - sum.claimed <= kLifetime);
  }
  sum.marked = sum.marked || wire::is_marked(header_.code);
  const std::uint32_t child = 1u << *sender();
  require((sum.children & child) == 0);
  sum.children |= child;
  for (std::size_t i = 0; i < header_.words; ++i) {
    sum.words[i] += word_at(&packet_[wire::packet_size(i, header_.exponents)]);
  }
  for (std::size_t i = 0; i < header_.exponents; ++i) {
    sum.exponents[i] = std::max(sum.exponents[i], wire::exponents_of(packet_.data())[i]);
  }
  require((sum.children == everybody()) == (grown(Counter::kCombined) > 0));
}

void Books::send(const Address& to, std::span<const std::uint8_t> packet) {
  book();
  ++sent_;
  wire::Header header;
  require(wire::parse(packet, header) == wire::ParseResult::kOk);
  if (!valid_) {  // a refusal is no larger than what it answers
    return require(header.kind == wire::Kind::kRefused && !wire::is_reply(header_.kind) && to == from_ && sent_ == 1 &&
                   packet.size() <= packet_.size());
  }
  if (wire::is_reply(header_.kind)) return check_reply(to, header, packet);
  require(same_peer(to, spec().upstream[header_.slot % spec().upstream.size()]) && sent_ == 1);
  if (grown(Counter::kPassedOn) + grown(Counter::kCollisions) > 0) return check_sent_on(header, packet);
  check_sum(header, packet);
}

// A packet that is sent on is as it came, but it may have a mark.
void Books::check_sent_on(const wire::Header& header, std::span<const std::uint8_t> packet) const {
  require(packet.size() == packet_.size() && header.kind == header_.kind && header.worker == header_.worker);
  require(header.code == marked(header_.code) && header.secret == header_.secret && same_pass(header, header_));
  require(std::equal(packet.begin() + wire::kHeaderSize, packet.end(), packet_.begin() + wire::kHeaderSize));
}

void Books::check_sum(const wire::Header& header, std::span<const std::uint8_t> packet) {
  const Sum& sum = sum_of_pass();
  require(header.kind == wire::Kind::kCombined && same_pass(header, header_) && header.secret == spec().secret);
  require(header.worker == wire::kFirstGroup + spec().group && sum.children == everybody());
  require(grown(Counter::kCombined) + grown(Counter::kAbsorbed) == 1);
  const auto transmission = grown(Counter::kCombined) > 0 ? wire::Transmission::kFirst : wire::Transmission::kAgain;
  const auto code = static_cast<std::uint8_t>(transmission);
  require(header.code == marked(sum.marked ? code | wire::kMarked : code));
  for (std::size_t i = 0; i < header.words; ++i) {
    require(word_at(&packet[wire::packet_size(i, header.exponents)]) == sum.words[i]);
  }
  require(std::equal(wire::exponents_of(packet.data()), wire::exponents_of(packet.data()) + header.exponents,
                     sum.exponents.begin()));
}

// A reply goes to children that the switch knows, to each once, as it came. A result may say that packets were lost, or
// that a port has a queue.
void Books::check_reply(const Address& to, const wire::Header& header, std::span<const std::uint8_t> packet) {
  require(same_peer(from_, spec().upstream[header_.slot % spec().upstream.size()]));
  std::size_t child = 0;
  while (child < spec().children.size() && !(contacts_[job_][child] == to && (receivers() & ~told_) >> child & 1))
    ++child;
  require(child < spec().children.size());
  told_ |= 1u << child;
  const std::uint8_t told = is_result() && untold_[job_] ? header_.code | wire::kOverflowed : header_.code;
  const std::uint8_t code = marked(told);
  require(packet.size() == packet_.size() && header.kind == header_.kind && header.worker == header_.worker &&
          header.code == code && header.secret == header_.secret && same_pass(header, header_));
  require(std::equal(packet.begin() + wire::kHeaderSize, packet.end(), packet_.begin() + wire::kHeaderSize));
}

}  // namespace jaxina::fuzz
