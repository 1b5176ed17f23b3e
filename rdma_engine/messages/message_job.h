// One job whose workers write RDMA messages: its aggregator, its key, and the connections of its workers. It may be
// made and destroyed on any thread, as may a connection; the thread that serves it only takes them in and gives them
// back.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/base/address.h"
#include "rdma_engine/messages/connection_end.h"
#include "rdma_engine/messages/pass_message.h"
#include "rdma_engine/messages/reassembly_buffers.h"
#include "rdma_engine/messages/result_check.h"
#include "rdma_engine/messages/write_responder.h"
#include "rdma_engine/shape/job_spec.h"

namespace jaxina {

class MessageJob {
 public:
  // The rkey is what a worker must know to write to the switch.
  MessageJob(const JobSpec& spec, std::uint32_t rkey)
      : spec_(spec),
        layout_(spec.shape),
        rkey_(rkey),
        aggregator_(spec.shape, options(spec)),
        buffers_(most_messages(spec.shape), layout_.largest()),
        connections_(spec.shape.workers()) {}

  static std::size_t bytes_for(const JobSpec& spec) {
    const roce::MessageLayout layout(spec.shape);
    return Aggregator::bytes_for(spec.shape, options(spec)) +
           roce::ReassemblyBuffers::bytes_for(most_messages(spec.shape), layout.largest()) +
           spec.shape.workers() * layout.queues() * sizeof(Queue);
  }

  struct Queue {
    roce::WriteResponder responder;
    std::uint32_t psn = 0;           // of the next packet to send
    roce::PassName pass;             // of the message that comes in
    std::uint8_t* buffer = nullptr;  // where it is put together, while it is
  };
  // A worker's end and ours.
  struct Connection {
    MessageJob* job = nullptr;
    std::uint32_t worker = 0;
    std::uint32_t first_qpn = 0;  // of ours, which follow one another
    roce::ConnectionEnd remote;
    Address peer;
    std::size_t mtu = 0;
    std::vector<Queue> queues;
  };

  const JobSpec& spec() const { return spec_; }
  const roce::MessageLayout& layout() const { return layout_; }
  std::uint32_t rkey() const { return rkey_; }
  Aggregator& aggregator() { return aggregator_; }
  const Aggregator& aggregator() const { return aggregator_; }
  roce::ReassemblyBuffers& buffers() { return buffers_; }
  // By worker; null until it connects.
  std::vector<std::unique_ptr<Connection>>& connections() { return connections_; }

 private:
  static AggregatorOptions options(const JobSpec& spec) {
    AggregatorOptions options{.first_epoch = spec.first_epoch};
    if (!spec.shape.whole_chunks()) {
      options.extra_words = roce::kCheckWords;
      options.seal = roce::ResultCheck::seal;
    }
    return options;
  }
  static std::size_t most_messages(const JobShape& shape) { return std::size_t{shape.workers()} * shape.slots(); }

  JobSpec spec_;
  roce::MessageLayout layout_;
  std::uint32_t rkey_;
  Aggregator aggregator_;
  roce::ReassemblyBuffers buffers_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace jaxina
