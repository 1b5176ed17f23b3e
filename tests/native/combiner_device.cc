// Runs the software switch that combines updates for the conformance vectors in p4/conformance/vectors/atp. It reads
// commands from standard input, one per line, and writes answers to standard output. The last line of each answer is
// `ok` or `error ...`.
//
//   switch ENTRIES                  a new switch, without jobs
//   job ID SECRET WORKERS SLOTS BLOCK_SIZE SENDER:WORKER+... ... / SERVER ...   the children, and endpoints of servers
//   packet FROM NANOSECONDS HEX     -> send TO HEX, for each packet that it sends. FROM and TO are names of endpoints
//   counts ID|-                     -> count NAME VALUE, for each counter of what became of packets that is not 0
#include <iostream>
#include <memory>
#include <sstream>

#include "rdma_engine/base/narrow.h"
#include "rdma_engine/combiner/combiner.h"
#include "tests/native/conformance_text.h"

namespace jaxina {
namespace {

using namespace testing;

constexpr std::size_t kPacketBytes = 2048;  // more than the packets of the vectors have

Child read_child(const std::string& text) {
  std::istringstream in(text);
  Child child;
  char separator = 0;
  in >> child.sender;
  for (std::uint32_t worker = 0; in >> separator >> worker;) insert(child.workers, worker);
  return child;
}

CombinedJobSpec read_job(std::istream& in) {
  ShapeRequest shape{.blocks_per_chunk = 1, .widest_element = 1};
  std::uint32_t job = 0;
  std::uint64_t secret = 0;
  in >> job >> secret >> shape.workers >> shape.slots >> shape.block_size;
  shape.devices = shape.workers;
  CombinedJobSpec spec{.job = job, .secret = secret, .shape = JobShape(shape)};
  std::string text;
  while (in >> text && text != "/") spec.children.push_back(read_child(text));
  while (in >> text) spec.upstream.push_back(address_of(text));
  return spec;
}

void print_counts(const Counters& counters) {
  counters.for_each([](Counter counter, std::uint64_t value) {
    const bool of_sums = counter == Counter::kCombined || counter == Counter::kExpired || counter == Counter::kReleased;
    if (value == 0 || !(of_sums || counts_datagrams(counter))) return;
    const std::string_view name = to_string(counter);
    std::printf("count %.*s %llu\n", static_cast<int>(name.size()), name.data(),
                static_cast<unsigned long long>(value));
  });
}

class Commands {
 public:
  void run() {
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream in(line);
      try {
        on_command(in);
        std::printf("ok\n");
      } catch (const Error& error) {
        std::printf("error %s\n", error.what());
      }
      std::fflush(stdout);
    }
  }

 private:
  void on_command(std::istream& in) {
    std::string command, name, text;
    in >> command;
    if (command == "switch") {
      CombinerOptions options{.table = {.packet_bytes = kPacketBytes}};
      in >> options.table.entries;
      switch_ = std::make_unique<Combiner>(options);
    } else if (command == "job") {
      if (!switch_->add(std::make_unique<CombinedJob>(read_job(in))))
        throw Error(ErrorCode::kJobRejected, "the job exists already");
    } else if (command == "packet") {
      Nanoseconds now = 0;
      in >> name >> now >> text;
      switch_->on_packet(from_hex(text), address_of(name), now, printer_);
    } else if (command == "counts") {
      in >> name;
      const CombinedJob* job = name == "-" ? nullptr : switch_->find(narrow<std::uint32_t>(std::stoul(name)));
      if (name != "-" && job == nullptr) throw Error(ErrorCode::kInvalidArgument, "there is no such job");
      print_counts(job == nullptr ? switch_->without_job() : job->counters());
    } else {
      throw Error(ErrorCode::kInvalidArgument, "unknown command " + command);
    }
  }

  Printer printer_;
  std::unique_ptr<Combiner> switch_;
};

}  // namespace
}  // namespace jaxina

int main() {
  jaxina::Commands().run();
  return 0;
}
