// The aggregators of many jobs, spoken to in RDMA messages: what arrives on the workers' queue pairs becomes updates,
// and the answers become writes into the workers' memory. Sans-IO; owned by one thread.
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
  // Receives the writes to send; what they point to is valid only during the call. `psn` is the first packet's and then
  // the next message's.
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(const roce::Write& write, std::size_t mtu, std::uint32_t& psn) = 0;
  };

  // Queue pairs' numbers are drawn for each connection, so that nobody knows a neighbour's by his own. With `first_qpn`
  // they are given out one after the other from there on, as tests want it.
  explicit MessageAggregator(std::optional<std::uint32_t> first_qpn = std::nullopt);

  // False if a job of that id is there already.
  bool add(std::unique_ptr<MessageJob> job);
  // The job, which has no place here any more; null if there was none.
  std::unique_ptr<MessageJob> remove(std::uint32_t job);
  // From now on every update of the job is answered with the reason; workers that are connected are told at once.
  void abort(std::uint32_t job, const Status& reason, Output& output);

  // Takes a worker's connection in, under numbers that no other one has, and returns the one that the worker had.
  // Numbers are not used again soon, so that packets of an old connection find none. Throws Error(kJobRejected) if
  // there is no such job, or no numbers are left.
  std::unique_ptr<MessageJob::Connection> connect(std::uint32_t job,
                                                  std::unique_ptr<MessageJob::Connection> connection);

  // Whether `qpn` leads to a connection with the host that `from` is an address of. Cheap, so that it can come first.
  using SameHost = bool (*)(const Address&, const Address&);
  bool knows(std::uint32_t qpn, const Address& from, SameHost same_host);
  // A sound packet from where it may come.
  void on_packet(const roce::Packet& packet, Output& output);

  // Null if there is no such job.
  MessageJob* find(std::uint32_t job);
  // Of packets that are no update of any job.
  const Counters& strangers() const { return strangers_; }

 private:
  using Connection = MessageJob::Connection;
  using Queue = MessageJob::Queue;

  Connection* connection_of(std::uint32_t qpn);
  std::uint32_t free_numbers(std::size_t count);
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
  std::map<std::uint32_t, Connection*> connections_;  // by their first queue pair's number
  Connection* latest_ = nullptr;                      // most packets follow one of the same connection
  bool draws_numbers_;
  std::uint32_t next_qpn_;
  Counters strangers_;
};

}  // namespace jaxina
