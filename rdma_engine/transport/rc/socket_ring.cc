#include "rdma_engine/transport/rc/socket_ring.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/base/narrow.h"
#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/transport/start_thread.h"

namespace jaxina::rc {
namespace {

// How long the worker's thread may be away before the device's thread does the work.
constexpr Nanoseconds kAway = 5'000'000;
constexpr Nanoseconds kLongestSleep = 1'000'000'000;

roce::ConnectionEnd local_end(const RingSocketOptions& options, const roce::RoceSocket& socket) {
  std::random_device random;
  const std::uint32_t qpn = random() % (roce::kMask24 - 2) + 2;  // 0 and 1 are for management
  const std::size_t mtu = options.mtu > 0 ? options.mtu : roce::mtu_within(net::device_mtu(socket.address()));
  return {.address = socket.address(),
          .udp_port = socket.port(),
          .mtu = narrow<std::uint32_t>(mtu),
          .qpns = {qpn, qpn == roce::kMask24 ? 2 : qpn + 1},
          .psn = options.first_psn & roce::kMask24,
          .rkey = random()};
}

}  // namespace

SocketRing::SocketRing(const RingSocketOptions& options, const JobShape& shape)
    : SocketRing(options,
                 std::make_unique<roce::RoceSocket>(options.host, options.port, roce::IcrcPolicy::kCheck,
                                                    net::WhenFull::kWait, options.offload, roce::Service::kReliable),
                 shape) {}

SocketRing::SocketRing(const RingSocketOptions& options, std::unique_ptr<roce::RoceSocket> socket,
                       const JobShape& shape)
    : RingQueuePairs(local_end(options, *socket), shape, options.requester),
      socket_(std::move(socket)),
      loss_(options.loss, options.loss_seed),
      ack_timeout_(ack_timeout(options.requester.timeout)),
      wakeup_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wakeup_.get() < 0) throw Error(ErrorCode::kSystem, "eventfd failed");
  thread_ = start_thread([this] { run(); });
}

SocketRing::~SocketRing() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof(one));
  thread_.join();
}

void SocketRing::connect(const roce::RingNeighbours& neighbours) {
  const auto& [next, previous] = neighbours;
  const Address next_address = net::from_ipv4(next.address, next.udp_port);
  const Address previous_address = net::from_ipv4(previous.address, previous.udp_port);
  const std::lock_guard guard(mutex_);
  next_ = next_address;
  previous_ = previous_address;
  RingQueuePairs::connect(neighbours);
}

void SocketRing::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!is_connected() || is_present_ || now() - last_seen_ < kAway) {
      changed_.wait_for(lock, std::chrono::nanoseconds(kAway));
      continue;
    }
    turn();
    const Nanoseconds timeout = until_deadline(kLongestSleep);
    lock.unlock();
    pollfd waits[2] = {{socket_->fd(), POLLIN, 0}, {wakeup_.get(), POLLIN, 0}};
    const timespec limit = {static_cast<time_t>(timeout / 1'000'000'000), static_cast<long>(timeout % 1'000'000'000)};
    static_cast<void>(ppoll(waits, 2, &limit, nullptr));
    lock.lock();
  }
}

void SocketRing::turn() {
  const auto visit = [&](const roce::Packet& packet, const Address&) {
    if (loss_.drops()) {
      ++dropped_;
      return;
    }
    requests_ += !roce::is_acknowledge(packet.headers.opcode);
    if (const std::optional<Arrival> arrival = on_packet(packet, now())) arrived_.push_back(*arrival);
  };
  const auto known = [this](const roce::Headers& headers, const Address& from) { return is_known(headers, from); };
  for (int batch = 0; batch < roce::kBatchesInARow && socket_->receive(known, visit) > 0; ++batch) {
  }
  const Nanoseconds time = now();
  requester().on_tick(time);
  transmit(time);
}

bool SocketRing::is_known(const roce::Headers& headers, const Address& from) {
  const bool is_answer = roce::is_acknowledge(headers.opcode);
  if (headers.qpn == local().qpns[is_answer ? 0 : 1] && net::same_host(from, is_answer ? next_ : previous_))
    return true;
  ++rejected_;
  return false;
}

void SocketRing::transmit(Nanoseconds time) {
  while (const std::optional<roce::Headers> answer = responder().take_answer()) {
    socket_->send_packet({.peer = previous_, .head = {}, .tail = {}}, *answer, 0, 0);
  }
  while (std::optional<Requester::Outgoing> packet = requester().next_packet(time)) {
    packet->request.write.peer = next_;
    socket_->send_packet(packet->request.write, packet->headers, packet->offset, packet->size);
  }
  if (Status status = socket_->flush(); failure_.ok()) failure_ = std::move(status);
}

Nanoseconds SocketRing::until_deadline(Nanoseconds longest) const {
  const std::optional<Nanoseconds> deadline = requester().next_deadline();
  return deadline ? std::clamp<Nanoseconds>(*deadline - now(), 0, longest) : longest;
}

Status SocketRing::flush() {
  post_all();
  turn();
  last_seen_ = now();
  return failure_;
}

Status SocketRing::poll(std::vector<Arrival>& arrivals) {
  turn();
  arrivals.insert(arrivals.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
  last_seen_ = now();
  return failure_.ok() ? ended() : failure_;
}

void SocketRing::wait(Nanoseconds timeout) {
  is_present_ = true;
  Nanoseconds least;
  {
    const std::lock_guard guard(mutex_);
    // The device's thread may have taken messages since the worker looked.
    least = arrived_.empty() ? until_deadline(timeout) : 0;
  }
  if (least > 0) socket_->wait(least);
  last_seen_ = now();
  is_present_ = false;
}

void SocketRing::linger() {
  const Nanoseconds deadline = now() + kLongestLinger;
  Nanoseconds quiet_at = deadline;
  std::uint64_t requests = 0;
  for (bool was_idle = false; now() < std::min(deadline, quiet_at);) {
    {
      const std::lock_guard guard(mutex_);
      turn();
      if (!ended().ok() || !failure_.ok()) return;
      // An acknowledgement may be lost, and then the previous worker sends again.
      const bool is_idle = requester().is_idle();
      if (is_idle && (!was_idle || requests != requests_)) quiet_at = now() + 2 * ack_timeout_;
      was_idle = is_idle;
      requests = requests_;
    }
    wait(ack_timeout_ / 4);
  }
}

Counters SocketRing::counters() const {
  Counters counters = socket_->counters();
  counters[Counter::kPacketsReceived] -= dropped_;
  counters[Counter::kPacketsDropped] = dropped_;
  counters[Counter::kPacketsRejected] =
      rejected_ + counters[Counter::kRdmaMalformed] + counters[Counter::kRdmaWrongIcrc];
  if (is_connected()) counters[Counter::kRetransmissions] = requester().retransmissions();
  return counters;
}

}  // namespace jaxina::rc
