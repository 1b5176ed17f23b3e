// Plan: everything that a seed decides before its first event: shapes, links, ranges of faults, and which fault happens
// when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rdma_engine/combiner/phantom_queues.h"
#include "rdma_engine/sim/random.h"
#include "rdma_engine/worker/worker.h"

namespace jaxina::sim {

inline constexpr Nanoseconds kMicrosecond = 1'000;
inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1'000'000'000;

// The features of scenarios, one bit each. "swarm" draws a subset for every seed.
enum Feature : std::uint32_t {
  kLoss = 1u << 0,
  kDuplication = 1u << 1,
  kReordering = 1u << 2,
  kCorruption = 1u << 3,
  kClogging = 1u << 4,
  kPauses = 1u << 5,
  kSlowWorkers = 1u << 6,
  kCrash = 1u << 7,
  kWipe = 1u << 8,
  kSeveralJobs = 1u << 9,
  kHostile = 1u << 10,
  kManyWorkers = 1u << 11,
  // These are not in the swarm, because adding them would change what its seeds do.
  kIncast = 1u << 12,
  kMerging = 1u << 13,  // a burst of packets travels, is lost and is read as one, as with segmentation offload
  kMostWorkers = 1u << 14,
  kMessages = 1u << 15,      // RDMA messages instead of datagrams
  kSharedMemory = 1u << 16,  // the embedded transport: nothing is sent
  kLateCopies = 1u << 17,
  kCombining = 1u << 18,   // each worker has a server, and switches combine updates on their way there (docs/atp.md)
  kRacks = 1u << 19,       // the workers are in two racks, whose switches combine first
  kServers = 1u << 20,     // the servers have hosts of their own behind the switch, not the workers'
  kNarrow = 1u << 21,      // some tensors have words of 8 or 16 bits
  kCongestion = 1u << 22,  // workers send more than the links to servers can take, and switches mark packets
  kRing = 1u << 23,        // workers write to each other in a ring, through a switch that adds (docs/netreduce.md)
};

// What the scenario "swarm" draws from.
inline constexpr std::uint32_t kSwarm = kIncast - 1;

struct Scenario {
  std::string_view name;
  std::uint32_t features;
  std::string_view text;
};
// The first scenario is "swarm".
const std::vector<Scenario>& scenarios();
const Scenario* scenario_named(std::string_view name);

// Shares of packets, in units of 1 / 65536.
struct LinkFaults {
  std::uint32_t loss = 0, duplication = 0, reordering = 0, corruption = 0;
  Nanoseconds max_extra_delay = 0;  // the longest extra delay of a reordered packet
};

struct LinkPlan {
  Nanoseconds delay = 0;           // propagation
  std::uint32_t bytes_per_us = 0;  // bandwidth
  Nanoseconds queue = 0;           // packets that would have to wait longer than this are dropped
};

// The MTU of rings: small, so that even small messages take several packets.
inline constexpr std::uint32_t kRingMtu = 16;

// Simulated jobs sum float32 and int32, whose elements are one word wide, in blocks of a few words.
inline JobShape simulated_shape(std::uint32_t workers, std::uint32_t slots, std::uint32_t block_size,
                                std::uint32_t blocks_per_chunk) {
  return JobShape({.devices = workers,
                   .workers = workers,
                   .slots = slots,
                   .block_size = block_size,
                   .blocks_per_chunk = blocks_per_chunk,
                   .widest_element = 1});
}
inline JobShape smallest_shape() { return simulated_shape(1, 1, 1, 1); }

// The switch's receive buffer. All links share it.
struct IngressPlan {
  std::uint32_t room = 0;   // in packets; 0: unlimited
  Nanoseconds service = 0;  // time that the aggregator takes per packet
};

// Switches that combine updates. Without kCombining, racks and core still say where workers are.
struct CombiningPlan {
  std::uint32_t entries = 0;  // of each switch
  Nanoseconds lifetime = 0;   // of an entry
  std::uint32_t racks = 1;
  LinkPlan core = {};                    // from each rack to the core
  std::uint32_t servers = 0;             // with hosts of their own; 0: there is one in each worker's process
  LinkPlan server_link = {};             // from the core to each server's host
  std::uint32_t share_sent_on = 0;       // see CombinerOptions
  PhantomQueueOptions queues = {};       // of all switches' ports
  Nanoseconds first_rack_learns_at = 0;  // until then the switch of the first rack knows no job
};

// A TCP stream to the first worker's host, from the first event to the last.
struct TcpStreamPlan {
  std::uint32_t packet_bytes = 0;  // 0: there is no stream
  Nanoseconds way_back = 0;        // of an acknowledgement
};

struct JobPlan {
  JobShape shape = smallest_shape();
  TimerLimits timer;
  WindowLimits window;
  std::uint32_t collectives = 0;
  std::size_t longest = 0;      // the most elements of a tensor
  bool narrow = false;          // some tensors have words of 8 or 16 bits
  bool steady = false;          // each collective is one float32 tensor of the longest size, with finite values
  std::uint32_t ahead = 0;      // how many collectives a worker may submit before the first of them is done
  Nanoseconds max_compute = 0;  // the longest time between two collectives
  Nanoseconds starts_at = 0;
  std::vector<LinkPlan> links;   // per worker, both directions
  std::uint8_t ack_timeout = 0;  // of the reliable connections in a ring: a code for rc::ack_timeout()
  bool restarts = false;         // a job that ended early starts again, as a new incarnation
  bool keeps_id = false;         // the new incarnation keeps the job id; only the secret is new
};

enum class FaultKind : std::uint8_t { kClog, kPause, kCrash, kWipe };
struct Fault {
  FaultKind kind;
  Nanoseconds at = 0;
  std::uint32_t job = 0, worker = 0;
  Nanoseconds duration = 0;   // of a clog or a pause; of a wipe: how long the switch is down
  bool drops = false;         // a clogged link drops packets instead of holding them
  bool forgets_jobs = false;  // a wiped switch no longer knows its jobs
};

struct Plan {
  std::uint64_t seed = 0;
  std::uint32_t features = 0;
  LinkFaults faults = {};
  IngressPlan ingress = {};
  CombiningPlan combining = {};
  Nanoseconds quiet_at = 0;         // from here on there are no more faults
  Nanoseconds detection_delay = 0;  // until the control plane notices a death or a failure
  std::vector<JobPlan> jobs = {};
  std::vector<Fault> scheduled_faults = {};  // in any order
  std::uint32_t hostile_packets = 0;
  Nanoseconds hostile_interval = 0;
  TcpStreamPlan tcp_stream = {};
  std::vector<Nanoseconds> looks = {};  // when to take an Outcome::Look, in ascending order. The last one ends the run
};

Plan draw_plan(const Scenario& scenario, std::uint64_t seed, Random& random);
std::string to_string(const Plan& plan);

}  // namespace jaxina::sim
