// MessageJob: one job whose workers write RDMA messages, with its aggregator, its rkey and its workers' connections. A
// job or a connection may be constructed and destroyed on any thread. The thread that serves it only adds and removes
// it.
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
  // A worker must know the rkey to write to the switch.
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
    roce::PassName pass;             // the pass of the message that is arriving
    std::uint8_t* buffer = nullptr;  // the buffer in which that message is reassembled; null between messages
  };
  // The two ends of a worker's connection.
  struct Connection {
    MessageJob* job = nullptr;
    std::uint32_t worker = 0;
    std::uint32_t first_qpn = 0;  // our first queue pair number; the others follow it
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
  // Indexed by worker; null until the worker connects.
  std::vector<std::unique_ptr<Connection>>& connections() { return connections_; }

 private:
  static AggregatorOptions options(const JobSpec& spec) {
    AggregatorOptions options{.first_epoch = spec.first_epoch};
    if (!spec.shape.whole_chunks()) {
      options.extra_words = roce::kCheckWords;
      options.seal = roce::ResultCheck::seal;
      options.seal_packed = roce::ResultCheck::seal_packed;
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
