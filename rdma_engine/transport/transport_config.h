// Membership and one config struct per transport: what a transport needs to know to take part in a job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rdma_engine/encryption/job_key.h"
#include "rdma_engine/errors.h"
#include "rdma_engine/messages/connection_end.h"
#include "rdma_engine/shape/job_shape.h"

namespace jaxina {

// A worker's place in a job.
struct Membership {
  JobShape shape;
  std::uint32_t worker = 0;    // this process's index in [0, shape.workers())
  std::uint32_t job = 0;       // id at the aggregator
  std::uint64_t secret = 0;    // shared by the job's workers and its aggregator
  double join_timeout_s = 60;  // how long to wait for the other workers
  // Asked several times a second while this worker waits for the others. An error ends the wait. May be empty.
  std::function<Status()> gives_up = {};
};

// The share of arriving packets to drop, for experiments.
struct Loss {
  double share = 0;
  std::uint64_t seed = 0;
};

struct EmbeddedConfig {
  std::string segment;  // name of the shared-memory segment; "": private to this process
};

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

// The given ports of one host.
inline std::vector<HostPort> ports_of(const std::string& host, const std::vector<std::uint16_t>& ports) {
  std::vector<HostPort> addresses;
  addresses.reserve(ports.size());
  for (const std::uint16_t port : ports) addresses.push_back({host, port});
  return addresses;
}

struct UdpConfig {
  // Where the job's passes are summed; slot i belongs to addresses[i % size]. These are the ports of a switch, one per
  // thread. With at_workers, addresses[i] is the server in the process of worker i % workers instead.
  std::vector<HostPort> addresses;
  bool at_workers = false;
  // The switches on the way there that may combine updates: slot i goes through switches[i % size]. Empty: none.
  std::vector<HostPort> switches = {};
  bool checksums = true;           // false: the replies carry no CRC
  std::uint32_t first_window = 0;  // how many passes they have room for at first; 0: not known
  // How many workers' packets share a link to a server or a switch of one link. At least 1: a switch that sums has a
  // port for each worker, and servers in the workers share the work.
  std::uint32_t workers_per_link = 1;
  std::string host = {};           // this process's numeric address; empty: the route decides for each destination
  std::optional<JobKey> key = {};  // if the job's packets are encrypted
  Loss loss = {};
};

struct RoceConfig {
  std::string address;      // the switch's host
  roce::Exchange exchange;  // connects this process's queue pairs to the switch's
  bool checksums = true;    // false: the switch's packets carry no valid ICRC
  Loss loss = {};
};

// Which RDMA device to use. What is not given may be any.
struct RdmaDevice {
  std::string name = {};
  std::optional<std::uint8_t> port = {};       // ports count from 1
  std::optional<std::uint8_t> gid_index = {};  // of the port
};

struct VerbsConfig {
  RdmaDevice device;
  roce::Exchange exchange;
};

// Workers that write to each other in a ring, over reliable connections of sockets.
struct RingConfig {
  std::string host;  // this worker's IPv4 address
  roce::RingExchange exchange;
  bool has_switch = false;  // a transparent switch on the way adds; otherwise the workers do
  Loss loss = {};
};

// The same, over those of an RDMA device.
struct VerbsRingConfig {
  RdmaDevice device;
  roce::RingExchange exchange;
  bool has_switch = false;
  double longest_wait_s = 300;  // how long a worker may be late, and its connections last
};

using TransportConfig = std::variant<EmbeddedConfig, UdpConfig, RoceConfig, VerbsConfig, RingConfig, VerbsRingConfig>;

}  // namespace jaxina
