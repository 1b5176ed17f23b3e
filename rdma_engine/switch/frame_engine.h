// FrameEngine: the ports of a transparent switch. It learns at which port each host is, as an Ethernet switch does, and
// lets the rings' packets be summed on their way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "rdma_engine/net/packet_port.h"
#include "rdma_engine/netreduce/transparent_switch.h"
#include "rdma_engine/switch/packet_engine.h"
#include "rdma_engine/switch/switch_counters.h"

namespace jaxina {

class FrameEngine final : public PacketEngine, private netreduce::FrameOutput {
 public:
  // The names of two interfaces or more. Throws Error like net::PacketPort.
  explicit FrameEngine(const std::vector<std::string>& interfaces);

  netreduce::TransparentSwitch& rings() { return rings_; }

  std::size_t turn() override;
  void flush() override {}
  void wait(Nanoseconds timeout) override;
  void interrupt() override;

  void count(SwitchCounters& counters) const;

 private:
  void on_frame(std::uint16_t ingress, std::span<const std::uint8_t> frame, const net::FrameOffload& offload);
  void learn(std::uint64_t source, std::uint16_t port);
  void send(std::uint16_t egress, std::span<const std::uint8_t> frame) override;

  std::vector<std::unique_ptr<net::PacketPort>> ports_;
  net::FileDescriptor event_;
  std::unordered_map<std::uint64_t, std::uint16_t> hosts_;  // by link address: the port
  netreduce::TransparentSwitch rings_;
  std::uint64_t received_ = 0;
  // The frame that is being handled.
  std::span<const std::uint8_t> current_;
  net::FrameOffload offload_ = {};
};

}  // namespace jaxina
