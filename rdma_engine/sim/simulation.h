// Simulation: one seed's run. It drives the real Worker, Session and Aggregator objects in virtual time, and oracles
// check every step.
//
// The oracles require:
// * Every delivered sum is correct bit for bit.
// * A contribution counts once, in its turn, and only if the worker made it for this incarnation of the job.
// * A worker accepts a result only as the aggregator made it for this incarnation.
// * A job that no fault has hit finishes once faults stop. So does what its reliable connections have under way.
// * A job that lost a worker or the switch's memory ends in a typed error on every worker that cannot finish.
// * The state of the code under test stays bounded.
// * Every packet is accounted for.
// * The sum that a combining switch sends is the exact sum of its set of workers, for one pass.
// * A switch that adds what passes between workers passes all else byte for byte, and no acknowledgement reaches a
// worker
//   of what the next one does not have.
// * No switch and no server makes up a mark, and marks decrease a window at most once in a round trip.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "rdma_engine/datagrams/switch_contact.h"
#include "rdma_engine/sim/network.h"
#include "rdma_engine/sim/plan.h"
#include "rdma_engine/sim/protocol.h"
#include "rdma_engine/sim/tcp_stream.h"
#include "rdma_engine/sim/trace.h"
#include "rdma_engine/sim/workload.h"

namespace jaxina::sim {

struct Outcome {
  std::string failure;         // empty: all oracles were satisfied
  std::uint64_t log_hash = 0;  // hash of every event; equal for equal seeds
  Nanoseconds virtual_time = 0;
  NetworkCounters network;
  std::uint64_t hostile = 0;  // packets that the hostile sender made
  std::uint64_t passes = 0;   // passes completed at the aggregator
  std::uint64_t retransmissions = 0;
  std::uint64_t sums = 0;  // collectives checked, once per worker
  std::uint64_t jobs_finished = 0, jobs_ended_early = 0;
  std::uint64_t marked = 0;     // packets that switches marked
  std::uint64_t decreases = 0;  // of workers' windows

  // What has happened until a time that the plan names.
  struct Look {
    std::vector<std::uint64_t> results = {};  // per job: the passes that its aggregators have completed
    std::vector<Counters> at_switches = {};   // per job: at the switches on the way to servers
    LinkCounters to_servers = {};             // on the links to the servers' hosts, all together
    LinkCounters to_workers = {};             // on the links to the workers
    LinkCounters to_first_worker = {};
    std::uint64_t retransmissions = 0;
    std::uint64_t tcp_bytes = 0;  // that the TCP stream has delivered
  };
  std::vector<Look> looks = {};
};

class Simulation final : private Protocol::Output {
 public:
  // With a trace, every step is recorded as text. Without one, nothing is formatted.
  Simulation(const Plan& plan, Random random, Trace* trace);
  Outcome run();

 private:
  // A worker process. `end` is its end of the protocol, which lives as long as one incarnation of the job.
  struct Host {
    std::uint32_t job = 0, rank = 0;
    std::unique_ptr<WorkerEnd> end;
    std::optional<SwitchContact> contact;
    std::size_t submitted = 0, completed = 0;
    Nanoseconds next_submit = 0;
    Nanoseconds paused_until = 0;
    Nanoseconds reads_at = -1;               // when it last planned to process what arrived
    Nanoseconds timer_at = -1;               // time of the only pending kTimer event that counts
    Nanoseconds card_at = -1;                // the same of kCard
    std::uint64_t marks = 0, decreases = 0;  // of its window
    Nanoseconds decreased_at = -kSecond;     // the latest one
    bool dead = false;
    Status failure;
    bool ended() const { return dead || !failure.ok() || done; }
    bool done = false;
  };
  struct JobRun {
    const JobPlan* plan = nullptr;
    JobSpec spec{.shape = smallest_shape()};
    std::uint32_t generation = 0;  // numbered over all jobs; 0: not started
    std::uint32_t incarnation = 0;
    std::uint16_t first_host = 0;
    std::unique_ptr<Workload> workload;
    std::vector<std::uint32_t> next_epoch;  // [worker * slots + slot]: the epoch that the aggregator must count next
    std::vector<const Counters*> counters;  // of its aggregators; empty while they do not have the job
    bool active = false;                    // started, and some worker can still finish or fail
    bool crashed = false, wiped = false;
    Nanoseconds crashed_at = 0;
    Status reason;         // why the control plane ends the job; ok until it does
    bool aborted = false;  // the control plane has told the aggregator
    bool disturbed() const { return crashed || wiped; }
  };

  // Sends what a worker's end sends.
  class HostOutput final : public WorkerEnd::Output {
   public:
    HostOutput(Simulation& simulation, std::uint16_t host) : simulation_(simulation), host_(host) {}
    void send(Packet& packet) override { simulation_.send_of_host(host_, packet); }

   private:
    Simulation& simulation_;
    std::uint16_t host_;
  };

  // nodes.cc: the network's nodes, and what they send
  void make_nodes();
  bool is_switch(std::uint16_t node) const;
  Host* process_at(std::uint16_t node);
  void send(std::uint16_t from, std::uint16_t to, std::span<const std::uint8_t> packet) override;
  void send_of_host(std::uint16_t host, Packet& packet);
  void transmit(const Packet& packet);
  Outcome::Look look() const;

  // simulation.cc: events, and what surrounds a worker
  void step(const Event& event);
  void arrive(std::uint32_t index);
  void take_in(std::uint32_t index);
  void arrive_at_node(const Packet& packet);
  void arrive_at_host(const Packet& packet, Host& host);
  bool read_replies(Host& host, const Packet* latest);
  void work(std::uint16_t host);
  void send_ready(std::uint16_t index, Host& host);
  void take_completed(Host& host);
  bool submit_next(std::uint16_t index, Host& host);
  void on_card(std::uint16_t index);
  void plan_card(std::uint16_t index, Host& host);
  bool is_any_card_busy() const;

  // control_plane.cc: jobs start, suffer faults and end
  void start_job(std::uint32_t job);
  void apply_fault(const Fault& fault);
  void wipe(const Fault& fault);
  void revive(bool forgot_jobs);
  void fail_host(std::uint16_t host, const Status& status);
  void plan_abort(JobRun& run, const std::string& why);
  void detect(std::uint32_t job);
  void finish_if_ended(std::uint32_t job);
  std::vector<const Counters*> add_job(const JobSpec& spec, std::span<const std::uint16_t> hosts);
  std::vector<std::uint16_t> hosts_of(const JobRun& run) const;
  void forget_counters(JobRun& run);

  // oracles.cc
  void require(bool holds, std::string_view what);
  void check_contribution(const Packet& packet, std::uint64_t before);
  void check_result(const Origin& origin, const Host& host);
  void check_failure(const Host& host);
  void check_ended(JobRun& run);
  void remember_contribution(const Packet& packet);
  void check_combined(const Packet& packet, const WorkerSet& workers);
  bool is_sent_on(std::span<const std::uint8_t> bytes) const;
  void check_accounting();
  void check_window(Host& host);
  std::uint64_t updates_counted() const;
  Counters all_counters() const;
  static std::uint64_t handled(const Counters& counters);

  // hostile.cc
  void start_hostile();
  void send_hostile();
  void remember(const Packet& packet);
  Packet make_hostile();
  Packet make_garbage();
  Packet make_forged(bool reply);
  Packet make_forged_between_nodes();
  Packet make_from_captured();
  Packet make_own_job();

  // narration.cc: the text of the trace
  void tell(std::uint32_t job, std::uint32_t slot, std::string text);
  std::string name_of(const Packet& packet, std::uint16_t node);
  void tell_sent(const Packet& packet, Fate fate);
  void tell_arrival(const Packet& packet, std::size_t position, const Counters& before, std::uint64_t updates);
  void tell_reply(const Packet& packet, const Host& host, WorkerEnd::Kind kind);

  JobRun& run_of(const Host& host) { return jobs_[host.job]; }
  std::uint16_t index_of(const Host& host) const { return static_cast<std::uint16_t>(&host - hosts_.data()); }
  std::uint16_t hostile_host() const { return network_.nodes(); }
  void log(std::uint64_t value) { hash_ = (hash_ ^ value) * 0x9fb21c651e98df25 ^ (hash_ >> 29); }

  const Plan& plan_;
  Random random_;
  Trace* trace_;
  EventQueue events_;
  Network network_;
  std::optional<TcpStream> tcp_stream_;
  std::unique_ptr<Protocol> switch_;
  std::vector<Host> hosts_;
  Nodes nodes_;
  const Packet* handled_ = nullptr;  // the packet that a switch or server is handling
  // What workers sent, for check_combined(): by host, slot and epoch.
  std::map<std::tuple<std::uint16_t, std::uint16_t, std::uint32_t>, Packet> contributions_;
  std::vector<JobRun> jobs_;
  std::vector<Packet> captured_;  // what the hostile sender captured
  std::size_t next_captured_ = 0;
  JobSpec hostile_job_{.shape = smallest_shape()};
  std::vector<const Counters*> hostile_counters_;
  std::uint32_t hostile_left_ = 0;
  Nanoseconds now_ = 0;
  Nanoseconds down_until_ = 0;     // the switch is down until then
  std::uint32_t replying_to_ = 0;  // generation of the update that the aggregator is answering
  bool quiet_ = false;
  bool overflowed_ = false;  // the switch's receive buffer has overflowed since it last read a packet
  std::uint32_t generations_ = 0;
  std::size_t jobs_left_ = 0;
  std::uint64_t at_switch_ = 0;            // packets passed to switches and servers
  std::uint64_t joint_contributions_ = 0;  // that came in one packet with another one of their group
  std::vector<const Counters*> retired_;   // counters of earlier incarnations that aggregators still have
  std::uint64_t counted_gone_ = 0;         // packets counted by jobs that aggregators no longer have
  std::uint64_t steps_ = 0;
  std::uint64_t hash_ = 0;
  Outcome outcome_;
};

// The same for a plan with shared memory, where nothing is sent.
Outcome simulate_shared_memory(const Plan& plan, Random random, Trace* trace);

// Runs a plan. `random` must be in the state in which draw_plan left it.
Outcome run(const Plan& plan, Random random, Trace* trace);
// Draws the plan of a seed and runs it.
Outcome simulate(const Scenario& scenario, std::uint64_t seed, Trace* trace = nullptr);

}  // namespace jaxina::sim
