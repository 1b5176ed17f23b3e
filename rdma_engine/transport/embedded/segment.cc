#include "rdma_engine/transport/embedded/segment.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "rdma_engine/base/utf8.h"

namespace jaxina::embedded {
namespace {

constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// How often a waiting worker checks whether the others are alive.
constexpr Nanoseconds kLivenessPeriod = 100'000'000;

}  // namespace

Segment::Segment(const JobShape& shape) {
  members_offset_ = round_up(sizeof(SegmentHeader), 64);
  slots_offset_ = round_up(members_offset_ + shape.workers() * sizeof(Member), 64);
  words_offset_ = round_up(slots_offset_ + shape.slots() * sizeof(SharedSlot), 4096);
  // The extra words make chunks start at different cache sets. Otherwise a pool of power-of-two chunks would evict
  // itself.
  words_stride_ = round_up(shape.words_per_chunk(), 16) + 16;
  size_ = round_up(words_offset_ + 2 * std::size_t{shape.slots()} * words_stride_ * sizeof(std::uint32_t), 4096);
}

void Segment::initialize(const Membership& member) {
  SegmentHeader& h = header();
  h.secret = member.secret;
  h.shape = member.shape;
  for (std::uint32_t i = 0; i < h.shape.slots(); ++i) {
    SharedSlot& s = slot(i);
    s.holder.store(SharedSlot::kNobody);
    s.state.reset(h.shape.workers());
    s.done[0].value.store(s.state.versions[0].epoch);
    s.done[1].value.store(s.state.versions[1].epoch);
  }
  h.ready.store(1, std::memory_order_release);
}

void Segment::join(const Membership& joining) {
  const std::uint32_t worker = joining.worker;
  const double timeout_s = joining.join_timeout_s;
  Member& mine = member(worker);
  std::uint32_t absent = static_cast<std::uint32_t>(Presence::kAbsent);
  if (!mine.presence.compare_exchange_strong(absent, static_cast<std::uint32_t>(Presence::kJoined))) {
    throw Error(ErrorCode::kRankTaken, "worker " + std::to_string(worker) + " has joined this job already (process " +
                                           std::to_string(mine.process) + "): give every worker a rank of its own");
  }
  mine.process = getpid();
  hold_place(worker);
  SegmentHeader& h = header();
  const Nanoseconds deadline = now() + static_cast<Nanoseconds>(timeout_s * 1e9);
  h.joined.value.fetch_add(1, std::memory_order_seq_cst);
  h.joined.ring();
  while (!h.joined.wait(h.shape.workers(), 0, std::min(kLivenessPeriod, std::max<Nanoseconds>(deadline - now(), 0)))) {
    const Status early = ended();
    if (!early.ok()) throw Error(early);
    if (const Status given_up = joining.gives_up ? joining.gives_up() : Status(); !given_up.ok()) {
      throw Error(end(given_up));
    }
    if (now() < deadline) continue;
    std::string names;
    for (std::uint32_t i = 0; i < h.shape.workers(); ++i) {
      if (member(i).presence.load() == static_cast<std::uint32_t>(Presence::kAbsent)) names += " " + std::to_string(i);
    }
    end({ErrorCode::kNeverJoined, "of " + std::to_string(h.shape.workers()) + " workers these did not join within " +
                                      std::to_string(timeout_s) + " s:" + names +
                                      ". Start them, or raise JAXINA_JOIN_TIMEOUT"});
    throw Error(ended());
  }
  if (worker == 0) remove_name();
}

void Segment::leave(std::uint32_t worker) {
  member(worker).presence.store(static_cast<std::uint32_t>(Presence::kLeft), std::memory_order_release);
}

Status Segment::end(const Status& reason) {
  SegmentHeader& h = header();
  // Its holder died or stopped; every worker will notice by itself.
  if (!h.reason_lock.acquire(1000, kLivenessPeriod)) return reason;
  if (h.ended.load() == static_cast<std::uint32_t>(ErrorCode::kOk)) {
    const std::string_view sentence = start_of(reason.message, sizeof(h.reason) - 1);
    std::memcpy(h.reason, sentence.data(), sentence.size());  // the memory was zero, so a zero follows
    h.ended.store(static_cast<std::uint32_t>(reason.code), std::memory_order_release);
  }
  h.reason_lock.release();
  return ended();
}

Status Segment::ended() {
  const auto code = static_cast<ErrorCode>(header().ended.load(std::memory_order_acquire));
  return code == ErrorCode::kOk ? Status() : Status(code, header().reason);
}

}  // namespace jaxina::embedded
