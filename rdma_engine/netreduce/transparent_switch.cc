#include "rdma_engine/netreduce/transparent_switch.h"

#include <utility>

#include "rdma_engine/base/narrow.h"

namespace jaxina::netreduce {

RingJob* TransparentSwitch::add(const RingSpec& spec) {
  if (jobs_.contains(spec.job)) return nullptr;
  auto job = std::make_unique<RingJob>(spec);
  std::map<FirstPacket, Flow> own;
  const auto note = [&](const RingMember& member, std::size_t number) {
    const FirstPacket first = first_of(member);
    const bool is_free = !flows_.contains(first.flow) && !awaited_.contains(first);
    return is_free && own.try_emplace(first, Flow{job.get(), narrow<std::uint32_t>(number)}).second;
  };
  for (std::size_t member = 0; member < spec.members.size(); ++member) {
    if (!note(spec.members[member], member)) return nullptr;
  }
  if (spec.from_above && !note(*spec.from_above, spec.members.size())) return nullptr;
  RingJob* added = (jobs_[spec.job] = std::move(job)).get();
  awaited_.merge(own);
  return added;
}

void TransparentSwitch::remove(std::uint32_t job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  const RingJob& gone = *found->second;
  const auto forget = [&](const RingMember& member) {
    const FirstPacket first = first_of(member);
    awaited_.erase(first);
    const auto begun = flows_.find(first.flow);
    if (begun != flows_.end() && begun->second.job == &gone) flows_.erase(begun);  // perhaps another job has begun it
  };
  for (const RingMember& member : gone.spec().members) forget(member);
  if (gone.spec().from_above) forget(*gone.spec().from_above);
  jobs_.erase(found);
}

const RingJob* TransparentSwitch::find(std::uint32_t job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.get();
}

const TransparentSwitch::Flow* TransparentSwitch::flow_of(const roce::RoceFrame& frame) {
  const roce::Headers& headers = frame.packet.headers;
  const FlowKey key{frame.flow.source, frame.flow.destination, frame.flow.destination_port, headers.qpn};
  if (const auto begun = flows_.find(key); begun != flows_.end()) return &begun->second;
  const auto awaited = awaited_.find({key, headers.psn, headers.rkey});
  if (awaited == awaited_.end() || !awaited->second.job->begins(awaited->second.member, frame)) return nullptr;
  const Flow& flow = flows_[key] = awaited->second;
  awaited_.erase(awaited);
  return &flow;
}

void TransparentSwitch::on_frame(std::span<const std::uint8_t> frame, std::uint16_t egress, FrameOutput& output) {
  const std::optional<roce::RoceFrame> read = roce::read_frame(frame);
  // An acknowledgement goes against the ring's direction, perhaps on a connection that carries data in both.
  const bool is_request = read && !roce::is_acknowledge(read->packet.headers.opcode);
  const Flow* const flow = is_request ? flow_of(*read) : nullptr;
  if (flow == nullptr) {
    ++without_job_[Counter::kPassedOn];
    return output.send(egress, frame);
  }
  RingJob& job = *flow->job;
  if (!read->is_intact()) {  // the receiver would drop it, too
    ++job.counters()[Counter::kRdmaWrongIcrc];
    return;
  }
  if (job.has_ended()) {
    ++without_job_[Counter::kPassedOn];
    return job.pass_on(*read, egress, output);
  }
  job.on_packet(flow->member, *read, egress, output);
}

}  // namespace jaxina::netreduce
