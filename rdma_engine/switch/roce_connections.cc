#include "rdma_engine/switch/roce_connections.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "rdma_engine/transport/udp/socket_address.h"

namespace jaxina {

using roce::MessageLayout;
using roce::Placement;

namespace {

// In front of a message there is room for the header and exponents that the aggregator's packets have there.
constexpr std::size_t kHeadroom = wire::kHeaderSize + wire::kMaxBlocksPerChunk;
static_assert(kHeadroom % 4 == 0);

std::uint8_t* message_in(std::vector<std::uint32_t>& memory) { return reinterpret_cast<std::uint8_t*>(memory.data()) + kHeadroom; }

// The aggregator's name for a connection.
Address address_of(std::uint32_t first_qpn) {
  Address address;
  std::memcpy(address.bytes.data(), &first_qpn, sizeof(first_qpn));
  address.size = sizeof(first_qpn);
  return address;
}

std::uint32_t first_qpn_of(const Address& address) {
  std::uint32_t first_qpn;
  std::memcpy(&first_qpn, address.bytes.data(), sizeof(first_qpn));
  return first_qpn;
}

bool is_mtu(std::uint32_t mtu) { return mtu >= 256 && mtu <= 4096 && (mtu & (mtu - 1)) == 0; }

std::uint32_t random_word() { return std::random_device()(); }

}  // namespace

RoceConnections::RoceConnections(roce::RoceSocket& socket, std::size_t mtu, std::optional<std::uint32_t> first_psn)
    : socket_(socket), mtu_(mtu), first_psn_(first_psn), next_qpn_(random_word() & roce::kMask24) {}

void RoceConnections::add_job(const JobSpec& spec) {
  const MessageLayout layout({spec.slots, spec.block_size, spec.blocks_per_chunk});
  jobs_.emplace(spec.job, std::make_unique<Job>(Job{spec, layout, random_word(), {}}));
}

void RoceConnections::remove_job(std::uint32_t job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  for (const auto& [worker, first_qpn] : found->second->first_qpn) connections_.erase(first_qpn);
  jobs_.erase(found);
}

roce::ConnectionEnd RoceConnections::connect(std::uint32_t id, std::uint16_t worker, const roce::ConnectionEnd& remote) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) throw Error(ErrorCode::kJobRejected, "there is no job " + std::to_string(id));
  Job& job = *found->second;
  const std::size_t queues = job.layout.queues();
  if (worker >= job.spec.workers || remote.qpns.size() != queues || !is_mtu(remote.mtu)) {
    throw Error(ErrorCode::kInvalidArgument, "a worker of job " + std::to_string(id) + " connects " + std::to_string(queues) +
                                                 " queue pairs, with an MTU that is a power of two from 256 to 4096");
  }
  const Address peer = udp::resolve(remote.address, remote.udp_port, ErrorCode::kInvalidArgument);
  if (const auto old = job.first_qpn.find(worker); old != job.first_qpn.end()) connections_.erase(old->second);
  // Numbers are not used again soon, so that packets of an old connection find none.
  if (next_qpn_ + queues > roce::kMask24 || next_qpn_ < 2) next_qpn_ = 2;  // 0 and 1 are reserved
  const std::uint32_t first = next_qpn_;
  next_qpn_ += static_cast<std::uint32_t>(queues);
  job.first_qpn[worker] = first;
  roce::ConnectionEnd local{.address = socket_.address(), .udp_port = socket_.port(),
                            .mtu = static_cast<std::uint32_t>(std::min<std::size_t>(mtu_, remote.mtu)),
                            .qpns = {}, .psn = first_psn_.value_or(random_word()) & roce::kMask24, .rkey = job.rkey, .memory = 0};
  Connection connection{job, worker, remote, peer, local.mtu, std::vector<Queue>(queues)};
  for (std::size_t i = 0; i < queues; ++i) {
    local.qpns.push_back(first + static_cast<std::uint32_t>(i));
    connection.queues[i].psn = local.psn;
    if (i < job.spec.slots) connection.queues[i].memory.resize((kHeadroom + job.layout.largest()) / 4);
  }
  connections_.emplace(first, std::move(connection));
  return local;
}

RoceConnections::Connection* RoceConnections::find(std::uint32_t qpn) {
  auto after = connections_.upper_bound(qpn);
  if (after == connections_.begin()) return nullptr;
  --after;
  return qpn - after->first < after->second.queues.size() ? &after->second : nullptr;
}

void RoceConnections::on_packet(const roce::Packet& packet, const Address& from, Aggregator& aggregator) {
  Connection* connection = find(packet.headers.qpn);
  if (connection == nullptr || !udp::same_host(from, connection->peer)) {
    ++counters_.unknown_queue_pair;
    return;
  }
  const std::uint32_t first_qpn = connection->job.first_qpn.at(connection->worker);
  const std::size_t index = packet.headers.qpn - first_qpn;
  Queue& queue = connection->queues[index];
  const auto resolve_write = [&](const roce::Headers& headers) { return resolve(*connection, index, headers); };
  switch (queue.responder.on_packet(packet, connection->mtu, resolve_write)) {
    case Placement::kPlaced:
      return;
    case Placement::kComplete:
      ++counters_.messages_received;
      return deliver(*connection, queue, first_qpn, aggregator);
    case Placement::kOutOfSequence:
      ++counters_.out_of_sequence;
      return;
    case Placement::kBadLength:
      ++counters_.bad_length;
      return;
    case Placement::kNoAccess:
      ++counters_.no_access;
      return;
  }
}

std::uint8_t* RoceConnections::resolve(Connection& connection, std::size_t index, const roce::Headers& headers) {
  const Job& job = connection.job;
  const auto pass = roce::pass_at(headers.address);
  if (headers.rkey != job.rkey || !pass || pass->slot != index || index >= job.spec.slots) return nullptr;
  const std::size_t tail = wire::padded(pass->exponents);
  const bool fits = pass->exponents <= job.spec.blocks_per_chunk && headers.length <= job.layout.largest() &&
                    headers.length >= tail && headers.length % 4 == 0;
  if (!fits) return nullptr;
  connection.queues[index].pass = *pass;
  return message_in(connection.queues[index].memory);
}

void RoceConnections::deliver(Connection& connection, Queue& queue, std::uint32_t first_qpn, Aggregator& aggregator) {
  const roce::Headers& message = queue.responder.message();
  const std::size_t tail = wire::padded(queue.pass.exponents);
  const std::size_t words = message.length - tail;
  // The aggregator's packets have the exponents in front of the words.
  std::uint8_t* payload = message_in(queue.memory);
  std::uint8_t* packet = payload - tail - wire::kHeaderSize;
  std::memcpy(payload - tail, payload + words, tail);
  const JobSpec& spec = connection.job.spec;
  const std::size_t size = wire::kHeaderSize + tail + words;
  wire::seal({.kind = wire::Kind::kUpdate,
              .job = spec.job,
              .secret = spec.secret,
              .worker = connection.worker,
              .slot = queue.pass.slot,
              .epoch = queue.pass.epoch,
              .fingerprint = message.immediate,
              .words = static_cast<std::uint16_t>(words / 4),
              .exponents = queue.pass.exponents,
              .code = 0},
             packet, size);
  aggregator.on_packet({packet, size}, address_of(first_qpn), *this);
}

void RoceConnections::send(const Address& to, std::span<const std::uint8_t> packet) {
  const auto found = connections_.find(first_qpn_of(to));
  wire::Header header;
  if (found == connections_.end() || wire::parse(packet, header) != wire::ParseResult::kOk) return;
  Connection& connection = found->second;
  ++counters_.messages_sent;
  if (header.kind != wire::Kind::kResult) return send_notice(connection, header, packet);
  const MessageLayout& layout = connection.job.layout;
  socket_.send({.peer = connection.peer,
                .qpn = connection.remote.qpns[header.slot],
                .rkey = connection.remote.rkey,
                .address = connection.remote.memory + layout.result_place(header.slot, header.epoch),
                .immediate = header.fingerprint,
                .head = packet.subspan(wire::kHeaderSize + wire::padded(header.exponents)),
                .tail = packet.subspan(wire::kHeaderSize, wire::padded(header.exponents))},
               connection.mtu, connection.queues[header.slot].psn);
}

void RoceConnections::send_notice(Connection& connection, const wire::Header& header, std::span<const std::uint8_t> packet) {
  const MessageLayout& layout = connection.job.layout;
  const bool last = header.kind == wire::Kind::kAbort;
  socket_.send({.peer = connection.peer,
                .qpn = connection.remote.qpns[layout.notices()],
                .rkey = connection.remote.rkey,
                .address = connection.remote.memory + (last ? layout.last_notice_place() : layout.notice_place(header.slot)),
                .immediate = last ? MessageLayout::kLastNotice : header.slot,
                .head = packet,
                .tail = {}},
               connection.mtu, connection.queues[layout.notices()].psn);
}

}  // namespace jaxina
