#include "rdma_engine/switch/switch_thread.h"

#include <cstring>
#include <utility>

namespace jaxina {
namespace {

constexpr Nanoseconds kLongestSleep = 1'000'000'000;

}  // namespace

SwitchThread::SwitchThread(const Address& local, double loss, std::uint64_t loss_seed)
    : socket_(local, {.answers = true}), receiver_(socket_), sender_(socket_), loss_(loss, loss_seed), output_(sender_) {
  thread_ = std::thread([this] { run(); });
}

SwitchThread::~SwitchThread() {
  stopping_ = true;
  socket_.interrupt();
  thread_.join();
}

void SwitchThread::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  has_commands_ = true;
  socket_.interrupt();
}

void SwitchThread::run() {
  while (!stopping_) {
    if (has_commands_) run_commands();
    const std::size_t packets = receiver_.receive(
        [this](std::span<const std::uint8_t> packet, const Address& from) { on_packet(packet, from); });
    output_.flush();
    if (packets == 0) socket_.wait_readable(kLongestSleep);
  }
}

void SwitchThread::run_commands() {
  has_commands_ = false;
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) {
    command(*this);
    output_.flush();
  }
}

void SwitchThread::on_packet(std::span<const std::uint8_t> packet, const Address& from) {
  ++packets_received_;
  if (loss_.drops()) {
    ++packets_dropped_;
    return;
  }
  output_.forget_copy();
  aggregator_.on_packet(packet, from, output_);
}

void SwitchThread::Output::send(const Address& to, std::span<const std::uint8_t> packet) {
  if (packet.data() != source_.data() || packet.size() != source_.size()) {
    std::uint8_t* room = sender_.reserve(packet.size());
    if (room == nullptr) {
      flush();
      room = sender_.reserve(packet.size());
    }
    std::memcpy(room, packet.data(), packet.size());
    source_ = packet;
    copy_ = {room, packet.size()};
  }
  sender_.add(to, copy_);
}

void SwitchThread::Output::flush() {
  // What cannot be sent is counted by the sender and lost; the workers ask again.
  static_cast<void>(sender_.flush());
  forget_copy();
}

}  // namespace jaxina
