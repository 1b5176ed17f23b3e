// Membership and one config struct per transport: what a transport needs to know to take part in a job.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

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
};

// The share of arriving packets to drop, for experiments.
struct Loss {
  double share = 0;
  std::uint64_t seed = 0;
};

struct EmbeddedConfig {
  std::string segment;  // name of the shared-memory segment; "": private to this process
};

struct UdpConfig {
  std::string address;               // the switch's host
  std::vector<std::uint16_t> ports;  // one data port per switch thread; slot i belongs to ports[i % size]
  bool checksums = true;             // false: the switch's replies carry no CRC
  std::uint32_t first_window = 0;    // how many passes the switch has room for at first; 0: not known
  Loss loss = {};
};

struct RoceConfig {
  std::string address;      // the switch's host
  roce::Exchange exchange;  // connects this process's queue pairs to the switch's
  bool checksums = true;    // false: the switch's packets carry no valid ICRC
  Loss loss = {};
};

struct VerbsConfig {
  std::string device;  // "" = any
  roce::Exchange exchange;
};

using TransportConfig = std::variant<EmbeddedConfig, UdpConfig, RoceConfig, VerbsConfig>;

}  // namespace jaxina
