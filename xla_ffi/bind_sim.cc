// Binds jaxina._native.sim, the simulator behind `jaxina sim`.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <atomic>
#include <string>
#include <thread>

#include "rdma_engine/errors.h"
#include "rdma_engine/sim/campaign.h"
#include "xla_ffi/bindings.h"

namespace jaxina {

namespace nb = nanobind;

namespace {

const sim::Scenario& checked_scenario(const std::string& name) {
  if (const sim::Scenario* scenario = sim::scenario_named(name)) return *scenario;
  std::string names;
  for (const sim::Scenario& scenario : sim::scenarios())
    names += (names.empty() ? "" : ", ") + std::string(scenario.name);
  throw Error(ErrorCode::kInvalidArgument, "no scenario is named " + name + "; there are " + names);
}

// A campaign that runs on threads of its own, so that Python can show its progress meanwhile.
class Campaign {
 public:
  Campaign(const std::string& scenario, std::uint64_t begin, std::uint64_t end, unsigned threads)
      : thread_([this, &chosen = checked_scenario(scenario), begin, end, threads] {
          result_ = sim::run_campaign(chosen, begin, end, threads, &done_, &stop_);
          finished_ = true;
        }) {}
  ~Campaign() { stop(); }

  std::uint64_t done() const { return done_; }
  bool finished() const { return finished_; }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Waits until all seeds have run, or the campaign was stopped.
  nb::dict result() {
    {
      const nb::gil_scoped_release released;
      if (thread_.joinable()) thread_.join();
    }
    nb::list failures;
    for (const sim::Failure& failure : result_.failures) failures.append(nb::make_tuple(failure.seed, failure.what));
    const sim::Outcome& total = result_.total;
    nb::dict figures;
    figures["seeds"] = result_.seeds;
    figures["failures"] = failures;
    figures["seconds"] = result_.seconds;
    figures["core_seconds"] = result_.core_seconds;
    figures["packets"] = total.network.sent + total.network.duplicated;
    figures["lost"] = total.network.lost;
    figures["duplicated"] = total.network.duplicated;
    figures["reordered"] = total.network.reordered;
    figures["corrupted"] = total.network.corrupted;
    figures["hostile"] = total.hostile;
    figures["retransmissions"] = total.retransmissions;
    figures["passes"] = total.passes;
    figures["sums"] = total.sums;
    figures["jobs_finished"] = total.jobs_finished;
    figures["jobs_ended_early"] = total.jobs_ended_early;
    figures["log_hash"] = total.log_hash;
    return figures;
  }

 private:
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<bool> stop_ = false, finished_ = false;
  sim::CampaignResult result_;
  std::thread thread_;
};

}  // namespace

void bind_sim(nb::module_& m) {
  nb::module_ module = m.def_submodule("sim", "The deterministic simulator of the aggregation protocol.");
  module.def(
      "scenarios",
      [] {
        nb::list all;
        for (const sim::Scenario& scenario : sim::scenarios()) all.append(nb::make_tuple(scenario.name, scenario.text));
        return all;
      },
      "The scenarios, as a list of (name, what faults it has).");
  module.def(
      "trace",
      [](const std::string& scenario, std::uint64_t seed) {
        sim::Random random(seed);
        const sim::Plan plan = sim::draw_plan(checked_scenario(scenario), seed, random);
        sim::Trace trace;
        const sim::Outcome outcome = sim::Simulation(plan, random, &trace).run();
        return nb::make_tuple(sim::to_string(plan), trace.text(), outcome.log_hash, outcome.failure);
      },
      nb::arg("scenario"), nb::arg("seed"),
      "Runs one seed of a scenario and records it.\n\n"
      "Args:\n"
      "  scenario: one of the names of scenarios().\n"
      "  seed: the seed, 64 bits.\n\n"
      "Returns:\n"
      "  (plan, timeline, log_hash, failure). plan and timeline are texts, log_hash is the hash of the log, and "
      "failure "
      "is '' if the run did not fail.\n\n"
      "Raises:\n"
      "  InvalidArgumentError: if there is no such scenario.");
  nb::class_<Campaign>(module, "Campaign", "Runs many seeds of a scenario on threads of its own.")
      .def(nb::init<const std::string&, std::uint64_t, std::uint64_t, unsigned>(), nb::arg("scenario"),
           nb::arg("begin"), nb::arg("end"), nb::arg("threads"),
           "Starts to run the seeds in [begin, end).\n\n"
           "Args:\n"
           "  scenario: one of the names of scenarios().\n"
           "  begin: the first seed.\n"
           "  end: the seed after the last.\n"
           "  threads: how many threads run seeds.\n\n"
           "Raises:\n"
           "  InvalidArgumentError: if there is no such scenario.")
      .def_prop_ro("done", &Campaign::done, "How many seeds have finished so far.")
      .def_prop_ro("finished", &Campaign::finished, "Whether the campaign has ended.")
      .def("stop", &Campaign::stop, nb::call_guard<nb::gil_scoped_release>(),
           "Ends the campaign early. Returns when the seeds under way have finished.")
      .def(
          "result", &Campaign::result,
          "Waits for the campaign's end.\n\n"
          "Returns:\n"
          "  A dict: 'seeds' that ran; 'failures', a list of (seed, text), after a few of which the campaign stops; "
          "'seconds' of the clock and 'core_seconds' of processor time; counts over all seeds of 'packets', 'lost', "
          "'duplicated', 'reordered', 'corrupted', 'hostile', 'retransmissions', 'passes', 'sums', 'jobs_finished' and "
          "'jobs_ended_early'; 'log_hash', which does not depend on the number of threads.");
}

}  // namespace jaxina
