#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/rc/ring_endpoint.h"
#include "rdma_engine/transport/roce/rdma_endpoint.h"
#include "rdma_engine/transport/verbs/availability.h"
#include "rdma_engine/transport/verbs/verbs_queue_pairs.h"
#include "rdma_engine/transport/verbs/verbs_ring.h"

namespace jaxina {

std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const VerbsConfig& config) {
  return roce::make_rdma_endpoint(
      member,
      [&](std::size_t queues, std::size_t send_bytes, std::size_t receive_bytes) {
        verbs::VerbsOptions options;
        options.device = config.device;
        return std::make_unique<verbs::VerbsQueuePairs>(options, queues, send_bytes, receive_bytes);
      },
      config.exchange);
}

std::unique_ptr<Endpoint> make_endpoint(const Membership& member, const VerbsRingConfig& config) {
  verbs::RingOptions options;
  options.device = config.device;
  if (config.has_switch) options.longest_hold = static_cast<Nanoseconds>(config.longest_wait_s * 1e9);
  auto link = std::make_unique<verbs::VerbsRing>(options, member.shape);
  link->connect(config.exchange(link->local()));
  return rc::make_ring_endpoint(member, std::move(link), !config.has_switch);
}

void verbs::check_device(const RdmaDevice& device) { open_device(device, ""); }

std::string verbs::availability() {
  try {
    const Device device = open_device({}, "");
    return device.name + " with " + device.address;
  } catch (const Error& error) {
    return error.status().message;
  }
}

}  // namespace jaxina
