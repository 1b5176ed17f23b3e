// DatagramAggregator: the aggregators of many jobs, for workers that speak datagrams. It checks arriving packets, turns
// them into updates, and puts the answers into packets. It is sans-IO: no sockets, threads or clocks, and no allocation
// while packets flow. A software switch runs one per thread; the simulator runs the same class. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "rdma_engine/datagrams/datagram_job.h"
#include "rdma_engine/datagrams/packet_output.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {

class DatagramAggregator {
 public:
  // Adds a job. Returns false if there is a job with the same id.
  bool add(std::unique_ptr<DatagramJob> job);
  // Removes a job and returns it; null if there was none.
  std::unique_ptr<DatagramJob> remove(std::uint32_t job);
  // Ends the job. Workers heard from so far are told the reason at once; from now on every update is answered with it.
  void abort(std::uint32_t job, const Status& reason, PacketOutput& output);

  // Processes one datagram, which must be aligned to 4 bytes. Only a valid update of a known job changes anything.
  // `checksum` says whether it must have a CRC: one that was encrypted need not.
  void on_packet(std::span<const std::uint8_t> packet, const Address& from, PacketOutput& output,
                 wire::Checksum checksum = wire::Checksum::kOptionalInSums);

  // The receive buffer overflowed. The next result of each job will say so.
  void on_overflow() { ++overflows_; }

  // Null if there is no such job.
  const Aggregator* find(std::uint32_t job) const;
  // Counts packets that belong to no job here.
  const Counters& without_job() const { return without_job_; }

 private:
  void reply(DatagramJob& job, const wire::Header& header, const Answer& answer, const Address& from,
             PacketOutput& output);
  static void heard_from(DatagramJob& job, const wire::Header& header, const Address& from);
  void tell_all(DatagramJob& job, const wire::Header& header, const Answer& answer, PacketOutput& output);
  void send_result(DatagramJob& job, const wire::Header& header, const ResultView& result, PacketOutput& output);
  void send_aborted(DatagramJob& job, std::uint16_t slot, const Address& to, PacketOutput& output);
  void end(DatagramJob& job, const Status& reason, PacketOutput& output);
  void send(DatagramJob& job, const Address& to, std::span<const std::uint8_t> packet, PacketOutput& output);

  std::unordered_map<std::uint32_t, std::unique_ptr<DatagramJob>> jobs_;
  Counters without_job_;
  std::uint64_t overflows_ = 0;
};

}  // namespace jaxina
