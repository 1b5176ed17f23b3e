#include "rdma_engine/switch/roce_switch.h"

#include <algorithm>
#include <random>
#include <utility>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"

namespace jaxina {
namespace {

std::uint32_t random_word() { return std::random_device()(); }

bool has_mtu(const roce::ConnectionEnd& end) {
  return end.mtu >= 256 && end.mtu <= 4096 && (end.mtu & (end.mtu - 1)) == 0;
}

}  // namespace

RoceSwitch::RoceSwitch(const RoceSwitchConfig& config) : config_(config) {
  std::vector<std::unique_ptr<MessageEngine>> engines;
  engines.push_back(std::make_unique<MessageEngine>(
      MessageEngine::Config{config.address, config.port, config.icrc, config.loss, config.loss_seed, config.offload}));
  address_ = engines.front()->socket().address();
  port_ = engines.front()->socket().port();
  lanes_ = std::make_unique<Lanes<MessageEngine>>(std::move(engines));
}

void RoceSwitch::add_job(const JobSpec& spec) {
  lanes_->add_job(spec.job, MessageJob::bytes_for(spec),
                  [&](const Shard&) { return std::make_unique<MessageJob>(spec, random_word()); });
}

roce::ConnectionEnd RoceSwitch::connect(std::uint32_t id, std::uint32_t worker, const roce::ConnectionEnd& remote) {
  // Slow work is done here, before the data thread is involved.
  if (remote.qpns.size() > std::size_t{kMaxSlots} + 1) {
    throw Error(ErrorCode::kInvalidArgument, "a worker connects one queue pair per slot and one for notices, not " +
                                                 std::to_string(remote.qpns.size()));
  }
  const Address peer = net::from_ipv4(remote.address, remote.udp_port);
  auto connection = std::make_unique<MessageJob::Connection>();
  connection->worker = worker;
  connection->remote = remote;
  connection->peer = peer;
  const std::size_t route_mtu = roce::mtu_within(net::route_mtu(peer));  // the worker knows only its own end's MTU
  connection->mtu = std::min<std::size_t>({config_.mtu, remote.mtu, route_mtu});
  connection->queues.resize(remote.qpns.size());
  roce::ConnectionEnd local{.address = address_,
                            .udp_port = port_,
                            .mtu = narrow<std::uint32_t>(connection->mtu),
                            .qpns = {},
                            .psn = config_.first_psn.value_or(random_word()) & roce::kMask24,
                            .rkey = 0,
                            .memory = 0};
  for (auto& queue : connection->queues) queue.psn = local.psn;
  struct Given {
    std::unique_ptr<MessageJob::Connection> old;  // freed by the caller
    std::uint32_t first_qpn, rkey;
  };
  const Given given = lanes_->on_first([id, connection = std::move(connection)](MessageEngine& engine) mutable {
    MessageJob* job = engine.aggregators().find(id);
    if (job == nullptr) throw Error(ErrorCode::kJobRejected, "there is no job " + std::to_string(id));
    const std::size_t queues = job->layout().queues();
    if (connection->worker >= job->spec().shape.workers() || connection->queues.size() != queues ||
        !has_mtu(connection->remote)) {
      throw Error(ErrorCode::kInvalidArgument, "a worker of job " + std::to_string(id) + " connects " +
                                                   std::to_string(queues) +
                                                   " queue pairs, with an MTU that is a power of two from 256 to 4096");
    }
    Given result;
    const MessageJob::Connection& made = *connection;
    result.old = engine.aggregators().connect(id, std::move(connection));
    result.first_qpn = made.first_qpn;
    result.rkey = job->rkey();
    return result;
  });
  local.rkey = given.rkey;
  for (std::size_t i = 0; i < remote.qpns.size(); ++i) local.qpns.push_back(given.first_qpn + narrow<std::uint32_t>(i));
  return local;
}

}  // namespace jaxina
