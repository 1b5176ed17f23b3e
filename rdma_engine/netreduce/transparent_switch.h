// TransparentSwitch: adds what the rings of registered jobs carry, and passes everything else byte for byte. It is
// sans-IO: frames in, frames out. It does not route: the caller says where a frame would leave, and it leaves there.
//
// Anybody may register a ring, also one with connections of other hosts. So a connection is a ring's only once its
// first packet has come, whose number and key nobody else knows. Several rings may wait for first packets of one
// connection.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "rdma_engine/netreduce/ring_job.h"

namespace jaxina::netreduce {

class TransparentSwitch {
 public:
  // Returns the job, or null if there is one of this number, or if a connection is another job's already. Throws
  // Error(kInvalidArgument).
  RingJob* add(const RingSpec& spec);
  // From now on the job's packets pass as they are. What was held is lost.
  void remove(std::uint32_t job);
  const RingJob* find(std::uint32_t job) const;

  void on_frame(std::span<const std::uint8_t> frame, std::uint16_t egress, FrameOutput& output);

  // Calls visit(id, counters) for each job.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [id, job] : jobs_) visit(id, std::as_const(*job).counters());
  }
  // Of frames that belong to no job.
  const Counters& without_job() const { return without_job_; }

 private:
  // What names a connection in every packet.
  struct FlowKey {
    std::array<std::uint8_t, 4> source, destination;
    std::uint16_t port;
    std::uint32_t qpn;
    auto operator<=>(const FlowKey&) const = default;
  };
  // What names the first packet that a ring sends on a connection.
  struct FirstPacket {
    FlowKey flow;
    std::uint32_t psn, rkey;
    auto operator<=>(const FirstPacket&) const = default;
  };
  static FirstPacket first_of(const RingMember& member) {
    return {{member.source, member.destination, member.port, member.qpn}, member.first_psn, member.rkey};
  }
  struct Flow {
    RingJob* job;
    std::uint32_t member;  // as RingJob::on_packet() has it
  };
  // Null if the frame is no ring's.
  const Flow* flow_of(const roce::RoceFrame& frame);

  std::map<std::uint32_t, std::unique_ptr<RingJob>> jobs_;
  std::map<FirstPacket, Flow> awaited_;  // connections whose first packets have not come
  std::map<FlowKey, Flow> flows_;        // the others
  Counters without_job_;
};

}  // namespace jaxina::netreduce
