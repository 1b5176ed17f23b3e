// The software aggregator for the conformance vectors of p4/conformance: commands on standard input, one a line, answers
// on standard output, the last of each command `ok` or `error ...`.
//
//   job ID SECRET WORKERS SLOTS BLOCK_SIZE BLOCKS_PER_CHUNK FIRST_EPOCH
//   remove ID
//   packet FROM HEX                 -> send TO HEX, for each packet that it sends; FROM and TO are names of
//                                    endpoints, TO `nowhere` for a worker that has not been heard from
//   state ID SLOT VERSION           -> state EPOCH COUNT SEEN,... EXPONENTS,... WORDS,...
//   counts ID|-                     -> count NAME VALUE, for each counter that is not 0
//   rdma job|remove|state|counts ... the same at the switch for RDMA, whose packets come over its socket
//   rdma connect ID WORKER ADDRESS PORT MTU PSN RKEY MEMORY QPN...  -> end PORT PSN RKEY QPN...
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "rdma_engine/aggregator/aggregator.h"
#include "rdma_engine/switch/roce_switch.h"

namespace jaxina {
namespace {

Address address_of(const std::string& name) {
  Address address;
  if (name.size() > address.bytes.size()) throw Error(ErrorCode::kInvalidArgument, "the endpoint's name is too long");
  std::memcpy(address.bytes.data(), name.data(), name.size());
  address.size = static_cast<std::uint8_t>(name.size());
  return address;
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) std::from_chars(&text[2 * i], &text[2 * i] + 2, bytes[i], 16);
  return bytes;
}

struct Printer final : Aggregator::Output {
  void send(const Address& to, std::span<const std::uint8_t> packet) override {
    const std::string_view name(reinterpret_cast<const char*>(to.bytes.data()), to.size);
    std::printf("send %s ", name.empty() ? "nowhere" : std::string(name).c_str());
    for (const std::uint8_t byte : packet) std::printf("%02x", byte);
    std::printf("\n");
  }
};

JobSpec read_job(std::istream& in) {
  JobSpec spec;
  in >> spec.job >> spec.secret >> spec.workers >> spec.slots >> spec.block_size >> spec.blocks_per_chunk >> spec.first_epoch;
  return spec;
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

template <typename Device>
void print_state(Device& device, std::istream& in) {
  std::uint32_t job = 0, slot = 0, version = 0;
  in >> job >> slot >> version;
  const std::optional<SlotContents> contents = device.inspect(job, slot, version);
  if (!contents) throw Error(ErrorCode::kInvalidArgument, "no such slot");
  std::vector<std::uint32_t> seen;
  for (std::uint32_t worker = 0; worker < numerics::kMaxWorkers; ++worker) {
    if (contains(contents->control.seen, worker)) seen.push_back(worker);
  }
  std::printf("state %u %u", contents->control.epoch, contents->control.count);
  print_list(seen);
  print_list(contents->exponents);
  print_list(std::vector<std::int32_t>(contents->words.begin(), contents->words.end()));
  std::printf("\n");
}

void print_count(std::string_view name, std::uint64_t value) {
  if (value > 0) std::printf("count %.*s %llu\n", static_cast<int>(name.size()), name.data(), static_cast<unsigned long long>(value));
}

void print_counts(const JobCounters& counters, const Aggregator::Rejects& rejects) {
  print_count("updates", counters.updates);
  print_count("results", counters.results);
  print_count("duplicates", counters.duplicates);
  for (std::size_t kind = 0; kind < rejects.size(); ++kind) print_count(to_string(static_cast<Reject>(kind)), rejects[kind]);
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
      const JobSpec spec = read_job(in);
      if (const Status status = aggregator_.add_job(spec); !status.ok()) throw Error(status);
      jobs_.push_back(spec.job);
    } else if (command == "remove") {
      std::uint32_t job = 0;
      in >> job;
      aggregator_.remove_job(job);
      std::erase(jobs_, job);
    } else if (command == "packet") {
      in >> name >> text;
      aggregator_.on_packet(from_hex(text), address_of(name), printer_);
    } else if (command == "state") {
      print_state(aggregator_, in);
    } else if (command == "counts") {
      in >> name;
      print_datagram_counts(name);
    } else {
      throw Error(ErrorCode::kInvalidArgument, "unknown command " + command);
    }
  }

  void print_datagram_counts(const std::string& job) {
    Aggregator::Rejects rejects = aggregator_.rejects();
    if (job != "-") {
      const auto id = static_cast<std::uint32_t>(std::stoul(job));
      return print_counts(*aggregator_.counters(id), *aggregator_.rejects(id));
    }
    for (const std::uint32_t id : jobs_) {
      for (std::size_t kind = 0; kind < rejects.size(); ++kind) rejects[kind] -= (*aggregator_.rejects(id))[kind];
    }
    print_counts({}, rejects);
  }

  void on_rdma(const std::string& command, std::istream& in) {
    std::uint32_t job = 0;
    if (command == "job") return roce_.add_job(read_job(in));
    if (command == "state") return print_state(roce_, in);
    if (command == "counts") {
      std::string name;
      in >> name;
      return print_rdma_counts(name);
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

  void print_rdma_counts(const std::string& job) {
    if (job != "-") {
      const RoceSwitchStatistics statistics = roce_.statistics(static_cast<std::uint32_t>(std::stoul(job)));
      return print_counts(statistics.job, statistics.rejects);
    }
    const RoceSwitchStatistics statistics = roce_.statistics(0);
    print_count("rdma_unknown_queue_pair", statistics.roce.unknown_queue_pair);
    print_count("rdma_out_of_sequence", statistics.roce.out_of_sequence);
    print_count("rdma_bad_length", statistics.roce.bad_length);
    print_count("rdma_no_access", statistics.roce.no_access);
    print_count("rdma_malformed", statistics.packets.malformed);
    print_count("rdma_wrong_icrc", statistics.packets.wrong_icrc);
  }

  Printer printer_;
  Aggregator aggregator_;
  std::vector<std::uint32_t> jobs_;
  // PSNs begin just before their wrap, so that every longer run sees it.
  RoceSwitch roce_{{.port = 0, .mtu = 4096, .first_psn = 0xfffffe}};
};

}  // namespace
}  // namespace jaxina

int main() {
  jaxina::Commands().run();
  return 0;
}
