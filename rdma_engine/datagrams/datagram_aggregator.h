// The aggregators of many jobs, spoken to in datagrams: checks what comes in, makes updates of it, and puts the answers
// into packets. Sans-IO: no sockets, threads or clocks, and no allocation while packets flow. A software switch runs
// one per thread, the simulator runs the same class.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "rdma_engine/datagrams/datagram_job.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

class DatagramAggregator {
 public:
  // Receives the datagrams to send. The bytes are valid only during the call.
  class Output {
   public:
    virtual ~Output() = default;
    virtual void send(const Address& to, std::span<const std::uint8_t> packet) = 0;
  };

  // False if a job of that id is there already.
  bool add(std::unique_ptr<DatagramJob> job);
  // The job, which has no place here any more; null if there was none.
  std::unique_ptr<DatagramJob> remove(std::uint32_t job);
  // From now on every update of the job is answered with the reason; workers heard from so far are told at once.
  void abort(std::uint32_t job, const Status& reason, Output& output);

  // One datagram, aligned to 4; whatever it holds, only a valid update of a known job changes anything.
  void on_packet(std::span<const std::uint8_t> packet, const Address& from, Output& output);

  // The receive buffer had no room for some datagram: the next result of each job says so.
  void on_overflow() { ++overflows_; }

  // Null if there is no such job.
  const Aggregator* find(std::uint32_t job) const;
  // Of packets that belong to no job here.
  const Counters& strangers() const { return strangers_; }

 private:
  void reply(DatagramJob& job, const wire::Header& header, const Answer& answer, const Address& from, Output& output);
  void send_result(DatagramJob& job, const wire::Header& header, const ResultView& result, Output& output);
  void send_aborted(DatagramJob& job, std::uint16_t slot, const Address& to, Output& output);
  void end(DatagramJob& job, const Status& reason, Output& output);
  void send(DatagramJob& job, const Address& to, std::span<const std::uint8_t> packet, Output& output);

  std::unordered_map<std::uint32_t, std::unique_ptr<DatagramJob>> jobs_;
  Counters strangers_;
  std::uint64_t overflows_ = 0;
};

}  // namespace jaxina
