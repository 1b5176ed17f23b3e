#include "rdma_engine/netreduce/transparent_switch.h"

#include <utility>

#include "rdma_engine/base/narrow.h"

namespace jaxina::netreduce {

RingJob* TransparentSwitch::add(const RingSpec& spec) {
  if (jobs_.contains(spec.job)) return nullptr;
  auto job = std::make_unique<RingJob>(spec);
  std::map<FlowKey, Flow> own;
  const auto note = [&](const RingMember& member, std::size_t number) {
    const FlowKey key = key_of(member);
    return !flows_.contains(key) && own.try_emplace(key, Flow{job.get(), narrow<std::uint32_t>(number)}).second;
  };
  for (std::size_t member = 0; member < spec.members.size(); ++member) {
    if (!note(spec.members[member], member)) return nullptr;
  }
  if (spec.from_above && !note(*spec.from_above, spec.members.size())) return nullptr;
  RingJob* added = (jobs_[spec.job] = std::move(job)).get();
  flows_.merge(own);
  return added;
}

void TransparentSwitch::remove(std::uint32_t job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  const RingSpec& spec = found->second->spec();
  for (const RingMember& member : spec.members) flows_.erase(key_of(member));
  if (spec.from_above) flows_.erase(key_of(*spec.from_above));
  jobs_.erase(found);
}

const RingJob* TransparentSwitch::find(std::uint32_t job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.get();
}

void TransparentSwitch::on_frame(std::span<const std::uint8_t> frame, std::uint16_t egress, FrameOutput& output) {
  const std::optional<roce::RoceFrame> read = roce::read_frame(frame);
  // An acknowledgement goes against the ring's direction, perhaps on a connection that carries data in both.
  const bool is_request = read && !roce::is_acknowledge(read->packet.headers.opcode);
  const auto flow = is_request ? flows_.find({read->flow.source, read->flow.destination, read->flow.destination_port,
                                              read->packet.headers.qpn})
                               : flows_.end();
  if (flow == flows_.end()) {
    ++without_job_[Counter::kPassedOn];
    return output.send(egress, frame);
  }
  RingJob& job = *flow->second.job;
  if (!read->is_intact()) {  // the receiver would drop it, too
    ++job.counters()[Counter::kRdmaWrongIcrc];
    return;
  }
  if (job.has_ended()) {
    ++without_job_[Counter::kPassedOn];
    return job.pass_on(*read, egress, output);
  }
  job.on_packet(flow->second.member, *read, egress, output);
}

}  // namespace jaxina::netreduce
