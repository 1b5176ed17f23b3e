// MessageAggregator: the aggregators of many jobs, for workers that speak RDMA messages. Messages that arrive on the
// workers' queue pairs become updates, and the answers become writes into the workers' memory. It is sans-IO and
// belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "rdma_engine/base/counters.h"
#include "rdma_engine/datagrams/notices.h"
#include "rdma_engine/messages/message_job.h"
#include "rdma_engine/wire/roce.h"
#include "rdma_engine/wire/write.h"

namespace jaxina {

class MessageAggregator {
 public:
  // Receives the writes to send. What they point to is valid only during the call. `psn` is the first packet's sequence
  // number; send() advances it to the next message's.
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(const roce::Write& write, std::size_t mtu, std::uint32_t& psn) = 0;
  };

  // Queue pair numbers are drawn at random for each connection, so that a worker cannot guess another's from its own.
  // With `first_qpn` they are consecutive from there on, for tests.
  explicit MessageAggregator(std::optional<std::uint32_t> first_qpn = std::nullopt);

  // Adds a job. Returns false if there is a job with the same id.
  bool add(std::unique_ptr<MessageJob> job);
  // Removes a job and returns it; null if there was none.
  std::unique_ptr<MessageJob> remove(std::uint32_t job);
  // Ends the job. Connected workers are told the reason at once; from now on every update is answered with it.
  void abort(std::uint32_t job, const Status& reason, Output& output);

  // Adds a worker's connection under unused queue pair numbers, and returns the worker's previous connection. Numbers
  // are not reused soon, so packets of an old connection find no connection. Throws Error(kJobRejected) if there is no
  // such job, or if no numbers are left.
  std::unique_ptr<MessageJob::Connection> connect(std::uint32_t job,
                                                  std::unique_ptr<MessageJob::Connection> connection);

  // Whether `qpn` belongs to a connection with the host of `from`. This is a cheap check to make first.
  using SameHost = bool (*)(const Address&, const Address&);
  bool knows(std::uint32_t qpn, const Address& from, SameHost same_host);
  // Processes a sound packet for which knows() returned true.
  void on_packet(const roce::Packet& packet, Output& output);

  // Null if there is no such job.
  MessageJob* find(std::uint32_t job);
  // Counts packets that are not an update of any job.
  const Counters& without_job() const { return without_job_; }

 private:
  using Connection = MessageJob::Connection;
  using Queue = MessageJob::Queue;

  Connection* connection_of(std::uint32_t qpn);
  std::uint32_t free_qpns(std::size_t count);
  std::uint8_t* place_for(Connection& connection, std::size_t queue, const roce::Headers& headers);
  void deliver(Connection& connection, Queue& queue, Output& output);
  void forget(Connection& connection);
  void reply(Connection& connection, const wire::Header& header, const Answer& answer, Output& output);
  void send_result(Connection& connection, const ResultView& result, Output& output);
  void send_notice(Connection& connection, const Notice& notice, std::uint32_t slot, Output& output);
  void tell_ended(Connection& connection, Output& output);
  void end(MessageJob& job, const Status& reason, Output& output);
  void count_sent(Connection& connection, std::size_t bytes);

  std::unordered_map<std::uint32_t, std::unique_ptr<MessageJob>> jobs_;
  std::map<std::uint32_t, Connection*> connections_;  // by the connection's first queue pair number
  Connection* latest_ = nullptr;                      // cache: most packets follow one of the same connection
  bool random_qpns_;
  std::uint32_t next_qpn_;
  Counters without_job_;
};

}  // namespace jaxina
