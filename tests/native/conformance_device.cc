// Runs the software aggregator for the conformance vectors of p4/conformance. It reads commands from standard input,
// one per line, and writes answers to standard output. The last line of each answer is `ok` or `error ...`.
//
//   job ID SECRET WORKERS SLOTS BLOCK_SIZE BLOCKS_PER_CHUNK FIRST_EPOCH WHOLE_CHUNKS
//   remove ID
//   packet FROM HEX                 -> send TO HEX, for each packet that it sends. FROM and TO are names of endpoints;
//                                    TO is `nowhere` for a worker that has not been heard from
//   state ID SLOT VERSION           -> state EPOCH COUNT SEEN,... EXPONENTS,... WORDS,... FORMAT
//   counts ID|-                     -> count NAME VALUE, for each counter that is not 0
//   rdma job|remove|state|counts ... the same for the RDMA switch, which takes packets at its socket
//   rdma connect ID WORKER ADDRESS PORT MTU PSN RKEY MEMORY QPN...  -> end PORT PSN RKEY QPN...
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "rdma_engine/switch/roce_switch.h"
#include "tests/native/conformance_text.h"

namespace jaxina {
namespace {

using namespace testing;

// WHOLE_CHUNKS is 1 if the job has no narrow words. Then its RDMA messages carry no check words either.
JobSpec read_job(std::istream& in) {
  ShapeRequest shape{.widest_element = 1};
  std::uint32_t job = 0, first_epoch = 0;
  std::uint64_t secret = 0;
  in >> job >> secret >> shape.workers >> shape.slots >> shape.block_size >> shape.blocks_per_chunk >> first_epoch >>
      shape.whole_chunks;
  shape.devices = shape.workers;
  return {.job = job, .secret = secret, .shape = JobShape(shape), .first_epoch = first_epoch};
}

template <typename Values>
void print_list(const Values& values) {
  const char* separator = " ";
  for (const auto value : values) {
    std::printf("%s%lld", separator, static_cast<long long>(value));
    separator = ",";
  }
  if (values.empty()) std::printf(" -");
}

// `inspect(job, slot, version)` must be that of the aggregator.
template <typename Inspect>
void print_state(std::istream& in, Inspect inspect) {
  std::uint32_t job = 0, slot = 0, version = 0;
  in >> job >> slot >> version;
  const std::optional<SlotContents> contents = inspect(job, slot, version);
  if (!contents) throw Error(ErrorCode::kInvalidArgument, "no such slot");
  std::vector<std::uint32_t> seen;
  for (std::uint32_t worker = 0; worker < numerics::kMaxWorkers; ++worker) {
    if (contains(contents->control.seen, worker)) seen.push_back(worker);
  }
  std::printf("state %u %u", contents->control.epoch, contents->control.count);
  print_list(seen);
  print_list(contents->exponents);
  print_list(std::vector<std::int32_t>(contents->words.begin(), contents->words.end()));
  std::printf(" %d\n", static_cast<int>(contents->format));
}

void print_counts(const Counters& counters) {
  counters.for_each([](Counter counter, std::uint64_t value) {
    const bool of_updates =
        counter == Counter::kUpdates || counter == Counter::kResults || counter == Counter::kDuplicates;
    if (value == 0 || !(of_updates || is_reject(counter))) return;
    const std::string_view name = to_string(counter);
    std::printf("count %.*s %llu\n", static_cast<int>(name.size()), name.data(),
                static_cast<unsigned long long>(value));
  });
}

template <typename Found>
Found& existing(Found* found) {
  if (found == nullptr) throw Error(ErrorCode::kInvalidArgument, "there is no such job");
  return *found;
}

class Commands {
 public:
  void run() {
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream in(line);
      std::string command;
      in >> command;
      try {
        if (command == "rdma") {
          in >> command;
          on_rdma(command, in);
        } else {
          on_datagrams(command, in);
        }
        std::printf("ok\n");
      } catch (const Error& error) {
        std::printf("error %s\n", error.what());
      }
      std::fflush(stdout);
    }
  }

 private:
  void on_datagrams(const std::string& command, std::istream& in) {
    std::string name, text;
    if (command == "job") {
      if (!aggregator_.add(std::make_unique<DatagramJob>(read_job(in), Shard{}))) {
        throw Error(ErrorCode::kJobRejected, "the job exists already");
      }
    } else if (command == "remove") {
      std::uint32_t job = 0;
      in >> job;
      aggregator_.remove(job);
    } else if (command == "packet") {
      in >> name >> text;
      aggregator_.on_packet(from_hex(text), address_of(name), printer_);
    } else if (command == "state") {
      print_state(in, [this](std::uint32_t job, std::uint32_t slot, std::uint32_t version) {
        return existing(aggregator_.find(job)).inspect(slot, version);
      });
    } else if (command == "counts") {
      in >> name;
      print_counts(name == "-" ? aggregator_.without_job() : existing(aggregator_.find(id_of(name))).counters());
    } else {
      throw Error(ErrorCode::kInvalidArgument, "unknown command " + command);
    }
  }

  static std::uint32_t id_of(const std::string& job) { return static_cast<std::uint32_t>(std::stoul(job)); }

  void on_rdma(const std::string& command, std::istream& in) {
    std::uint32_t job = 0;
    if (command == "job") return roce_.add_job(read_job(in));
    if (command == "state") {
      return print_state(in, [this](std::uint32_t id, std::uint32_t slot, std::uint32_t version) {
        return roce_.inspect(id, slot, version);
      });
    }
    if (command == "counts") {
      std::string name;
      in >> name;
      const SwitchCounters counters = roce_.statistics();
      if (name == "-") return print_counts(counters.without_job);
      const auto found = counters.jobs.find(id_of(name));
      return print_counts(existing(found != counters.jobs.end() ? &found->second : nullptr));
    }
    in >> job;
    if (command == "remove") return roce_.remove_job(job);
    if (command != "connect") throw Error(ErrorCode::kInvalidArgument, "unknown command " + command);
    std::uint16_t worker = 0;
    roce::ConnectionEnd end;
    in >> worker >> end.address >> end.udp_port >> end.mtu >> end.psn >> end.rkey >> end.memory;
    for (std::uint32_t qpn = 0; in >> qpn;) end.qpns.push_back(qpn);
    end = roce_.connect(job, worker, end);
    std::printf("end %u %u %u", end.udp_port, end.psn, end.rkey);
    for (const std::uint32_t qpn : end.qpns) std::printf(" %u", qpn);
    std::printf("\n");
  }

  Printer printer_;
  DatagramAggregator aggregator_;
  // PSNs begin just before they wrap, so that every run of more than a few packets wraps.
  RoceSwitch roce_{{.port = 0, .mtu = 4096, .first_psn = 0xfffffe}};
};

}  // namespace
}  // namespace jaxina

int main() {
  jaxina::Commands().run();
  return 0;
}
