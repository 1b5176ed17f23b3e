#include "rdma_engine/switch/message_engine.h"

#include "rdma_engine/net/socket_address.h"

namespace jaxina {

MessageEngine::MessageEngine(const Config& config)
    : socket_(config.address, config.port, config.icrc, net::WhenFull::kDrop, config.offload),
      loss_(config.loss, config.loss_seed),
      output_(socket_) {}

std::size_t MessageEngine::turn() {
  // Check who sent the packet before checking its ICRC. The ICRC costs much more, and strangers could make us compute
  // it.
  const auto is_known = [this](const roce::Headers& headers, const Address& from) {
    return aggregators_.knows(headers.qpn, from, net::same_host);
  };
  const std::size_t packets = socket_.receive(is_known, [this](const roce::Packet& packet, const Address&) {
    if (loss_.drops()) {
      ++packets_dropped_;
      return;
    }
    aggregators_.on_packet(packet, output_);
  });
  flush();
  return packets;
}

void MessageEngine::flush() {
  // Packets that cannot be sent are lost; the sender counts them, and the workers ask again.
  static_cast<void>(socket_.flush());
}

const Aggregator* MessageEngine::find(std::uint32_t job) {
  const MessageJob* found = aggregators_.find(job);
  return found != nullptr ? &found->aggregator() : nullptr;
}

const Counters* MessageEngine::counters_of(std::uint32_t job) {
  const Aggregator* aggregator = find(job);
  return aggregator != nullptr ? &aggregator->counters() : nullptr;
}

void MessageEngine::count(SwitchCounters& counters) const {
  counters.without_job += aggregators_.without_job();
  const Counters sockets = socket_.counters();
  for (const Counter reject : {Counter::kRdmaMalformed, Counter::kRdmaWrongIcrc})
    counters.without_job[reject] += sockets[reject];
  for (const Counter counter :
       {Counter::kPacketsReceived, Counter::kPacketsUnsent, Counter::kPacketsUnanswerable, Counter::kSocketOverflows}) {
    counters.sockets[counter] += sockets[counter];
  }
  counters.sockets[Counter::kPacketsDropped] += packets_dropped_;
}

}  // namespace jaxina
