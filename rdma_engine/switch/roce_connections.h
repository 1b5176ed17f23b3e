// The switch's ends of the workers' queue pairs: what arrives on them becomes updates of the aggregator, and what the
// aggregator says becomes RDMA writes into the workers' memory. Owned by one thread; no sockets of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/transport/roce/pass_message.h"
#include "rdma_engine/transport/roce/queue_pairs.h"
#include "rdma_engine/transport/roce/roce_socket.h"
#include "rdma_engine/transport/roce/write_responder.h"

namespace jaxina {

struct RoceCounters {
  std::uint64_t messages_received = 0, messages_sent = 0;
  std::uint64_t unknown_queue_pair = 0;  // packets; also those whose sender is not the queue pair's worker
  std::uint64_t out_of_sequence = 0, bad_length = 0;
  std::uint64_t no_access = 0;           // wrong rkey, or an address that names no pass
};

class RoceConnections final : public Aggregator::Output {
 public:
  // `first_psn` is drawn for every connection unless given, as tests of the wrap do.
  RoceConnections(roce::RoceSocket& socket, std::size_t mtu, std::optional<std::uint32_t> first_psn);

  // Draws the job's rkey.
  void add_job(const JobSpec& spec);
  void remove_job(std::uint32_t job);
  bool has_job(std::uint32_t job) const { return jobs_.contains(job); }
  // Gives a worker its queue pairs; a worker that connects anew loses those it had. Throws Error(kInvalidArgument) for
  // an end that does not fit the job, Error(kJobRejected) if there is no such job.
  roce::ConnectionEnd connect(std::uint32_t job, std::uint16_t worker, const roce::ConnectionEnd& remote);

  void on_packet(const roce::Packet& packet, const Address& from, Aggregator& aggregator);

  // Aggregator::Output: `to` is what address_of() made.
  void send(const Address& to, std::span<const std::uint8_t> packet) override;

  const RoceCounters& counters() const { return counters_; }

 private:
  struct Job {
    JobSpec spec;
    roce::MessageLayout layout;
    std::uint32_t rkey;
    std::map<std::uint16_t, std::uint32_t> first_qpn;  // by worker
  };
  struct Queue {
    roce::WriteResponder responder;
    std::uint32_t psn = 0;  // of the next packet to send
    roce::PassName pass;    // of the message that comes in
    std::vector<std::uint32_t> memory;  // room for a packet's header and exponents, then the message
  };
  struct Connection {
    Job& job;
    std::uint16_t worker;
    roce::ConnectionEnd remote;
    Address peer;
    std::size_t mtu;
    std::vector<Queue> queues;
  };

  Connection* find(std::uint32_t qpn);
  std::uint8_t* resolve(Connection& connection, std::size_t queue, const roce::Headers& headers);
  void deliver(Connection& connection, Queue& queue, std::uint32_t first_qpn, Aggregator& aggregator);
  void send_notice(Connection& connection, const wire::Header& header, std::span<const std::uint8_t> packet);

  roce::RoceSocket& socket_;
  std::size_t mtu_;
  std::optional<std::uint32_t> first_psn_;
  std::uint32_t next_qpn_;
  std::map<std::uint32_t, std::unique_ptr<Job>> jobs_;
  std::map<std::uint32_t, Connection> connections_;  // by their first queue pair's number
  RoceCounters counters_;
};

}  // namespace jaxina
