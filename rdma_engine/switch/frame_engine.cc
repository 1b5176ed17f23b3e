#include "rdma_engine/switch/frame_engine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/errors.h"

namespace jaxina {
namespace {

// An egress that means all ports but one: it holds the number of that one.
constexpr std::uint16_t kAllBut = 0x8000;
// More hosts than that are forgotten, all at once.
constexpr std::size_t kMaxHosts = 65536;

std::uint64_t link_address(const std::uint8_t* at) {
  std::uint64_t address = 0;
  for (int i = 0; i < 6; ++i) address = address << 8 | at[i];
  return address;
}
// Of a group of hosts, or of all.
bool is_group(const std::uint8_t* at) { return (at[0] & 1) != 0; }

}  // namespace

FrameEngine::FrameEngine(const std::vector<std::string>& interfaces) : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (interfaces.size() < 2 || interfaces.size() >= kAllBut) {
    throw Error(ErrorCode::kInvalidArgument, "a transparent switch stands between two network interfaces or more");
  }
  if (event_.get() < 0) throw Error(ErrorCode::kSystem, "eventfd failed");
  for (const std::string& interface : interfaces) ports_.push_back(std::make_unique<net::PacketPort>(interface));
}

std::size_t FrameEngine::turn() {
  std::size_t frames = 0;
  for (std::uint16_t port = 0; port < narrow<std::uint16_t>(ports_.size()); ++port) {
    frames += ports_[port]->receive(
        [&](std::span<const std::uint8_t> frame, const net::FrameOffload& offload) { on_frame(port, frame, offload); });
  }
  received_ += frames;
  return frames;
}

void FrameEngine::on_frame(std::uint16_t ingress, std::span<const std::uint8_t> frame,
                           const net::FrameOffload& offload) {
  const std::uint8_t *destination = frame.data(), *source = frame.data() + 6;
  if (!is_group(source)) learn(link_address(source), ingress);
  const auto known = is_group(destination) ? hosts_.end() : hosts_.find(link_address(destination));
  if (known != hosts_.end() && known->second == ingress) return;  // it has come there already
  current_ = frame;
  offload_ = offload;
  rings_.on_frame(frame, known != hosts_.end() ? known->second : kAllBut | ingress, *this);
}

void FrameEngine::learn(std::uint64_t source, std::uint16_t port) {
  const auto [host, is_new] = hosts_.try_emplace(source, port);
  host->second = port;
  if (is_new && hosts_.size() > kMaxHosts) hosts_ = {{source, port}};
}

void FrameEngine::send(std::uint16_t egress, std::span<const std::uint8_t> frame) {
  // A frame that passes as it is takes along what its host has left to network cards.
  const net::FrameOffload offload = frame.data() == current_.data() ? offload_ : net::FrameOffload{};
  if ((egress & kAllBut) == 0) return ports_[egress]->send(frame, offload);
  for (std::uint16_t port = 0; port < narrow<std::uint16_t>(ports_.size()); ++port) {
    if (port != (egress & ~kAllBut)) ports_[port]->send(frame, offload);
  }
}

void FrameEngine::wait(Nanoseconds timeout) {
  std::vector<pollfd> waits{{event_.get(), POLLIN, 0}};
  for (const auto& port : ports_) waits.push_back({port->fd(), POLLIN, 0});
  const timespec limit = {static_cast<time_t>(timeout / 1'000'000'000), static_cast<long>(timeout % 1'000'000'000)};
  if (ppoll(waits.data(), waits.size(), &limit, nullptr) <= 0 || waits[0].revents == 0) return;
  std::uint64_t count;
  [[maybe_unused]] const ssize_t taken = read(event_.get(), &count, sizeof(count));
}

void FrameEngine::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

void FrameEngine::count(SwitchCounters& counters) const {
  rings_.for_each([&](std::uint32_t job, const Counters& of_job) { counters.jobs[job] += of_job; });
  counters.without_job += rings_.without_job();
  counters.sockets[Counter::kPacketsReceived] += received_;
  for (const auto& port : ports_) {
    counters.sockets[Counter::kPacketsSent] += port->sent();
    counters.sockets[Counter::kPacketsUnsent] += port->unsent();
  }
}

}  // namespace jaxina
