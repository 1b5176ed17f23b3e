// Measures what lost packets cost the protocol of the udp transport, independently of the processors. The real worker
// and aggregator run over simulated links in virtual time, in which only the links take time.
//   loss_bench WORKERS SLOTS PACKETS [MICROSECONDS] [SEEDS]
// A run is one float32 sum of PACKETS packets. In each direction a link carries one packet in 8.8 us (as 1 Gbit/s
// carries a packet of 256 elements with its headers), delays it by MICROSECONDS (50 by default), and loses it with some
// probability. For every probability the program prints the time as a multiple of what the links allow, as the median
// (least - most) of SEEDS (5 by default) seeds, and the share of updates that were sent again.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "rdma_engine/datagrams/datagram_aggregator.h"
#include "rdma_engine/datagrams/session.h"
#include "rdma_engine/sim/network.h"
#include "rdma_engine/transport/udp/stream_limits.h"

namespace jaxina::sim {
namespace {

// The simulator's packets are smaller than real ones, and its links are slower by the same factor.
constexpr std::uint32_t kBlock = 32, kBytesPerMicrosecond = 19;
constexpr std::uint32_t kJob = 1;
constexpr std::uint64_t kSecret = 2;

struct Options {
  std::uint32_t workers, slots;
  std::size_t packets;
  Nanoseconds delay = 50 * kMicrosecond;
  std::uint64_t seeds = 5;
};

struct Figures {
  double times_limit, sent_again;
};

void check(bool ok, const char* what) {
  if (!ok) std::fprintf(stderr, "%s\n", what), std::exit(1);
}

class Sum final : private PacketOutput {
 public:
  Sum(const Options& options, double loss, std::uint64_t seed)
      : options_(options),
        random_(seed),
        network_(sim::Plan{.faults = {.loss = static_cast<std::uint32_t>(loss * 65536)}}, events_, random_),
        input_(options.packets * kBlock, 1.0f),
        timers_(options.workers, -1) {
    const JobShape shape({.devices = options.workers,
                          .workers = options.workers,
                          .slots = options.slots,
                          .block_size = kBlock,
                          .blocks_per_chunk = 1});
    const JobSpec spec{.job = kJob, .secret = kSecret, .shape = shape};
    check(aggregator_.add(std::make_unique<DatagramJob>(spec, Shard{})), "the aggregator refuses the job");
    for (std::uint32_t w = 0; w < options.workers; ++w) {
      network_.add_node({.delay = options.delay, .bytes_per_us = kBytesPerMicrosecond, .queue = kSecond});
      output_.emplace_back(input_.size());
      sessions_.push_back(std::make_unique<Session>(
          SessionConfig{.job = kJob,
                        .secret = kSecret,
                        .worker = static_cast<std::uint16_t>(w),
                        .stream = {.shape = shape, .timer = udp::kTimer, .window = udp::kWindow}}));
    }
  }

  Figures run() {
    for (std::uint32_t w = 0; w < options_.workers; ++w) {
      sessions_[w]->worker().submit({{{ElementType::kFloat32, input_.size(), input_.data(), output_[w].data()}}});
      work(static_cast<std::uint16_t>(w));
    }
    while (!std::all_of(sessions_.begin(), sessions_.end(), [](auto& s) { return s->worker().has_completed(); })) {
      const Event event = events_.pop();
      now_ = event.time;
      if (event.kind == EventKind::kArrival) {
        arrive(event.index);
      } else if (timers_[event.index] == now_) {
        timers_[event.index] = -1;
        work(static_cast<std::uint16_t>(event.index));
      }
    }
    std::uint64_t again = 0;
    for (const auto& session : sessions_) again += session->worker().retransmissions();
    for (const auto& sum : output_) {
      check(std::all_of(sum.begin(), sum.end(), [&](float x) { return x == static_cast<float>(options_.workers); }),
            "a sum is wrong");
    }
    const Nanoseconds packet =
        static_cast<Nanoseconds>(wire::packet_size(kBlock, 1)) * kMicrosecond / kBytesPerMicrosecond;
    const auto updates = static_cast<double>(options_.workers * options_.packets);
    return {static_cast<double>(now_) / static_cast<double>(packet * static_cast<Nanoseconds>(options_.packets)),
            static_cast<double>(again) / updates};
  }

 private:
  void arrive(std::uint32_t index) {
    const Packet packet = network_.packet(index);
    network_.release(index);
    if (packet.to == kSwitch) {
      Address from;
      std::memcpy(from.bytes.data(), &packet.from, sizeof(packet.from));
      from.size = sizeof(packet.from);
      return aggregator_.on_packet(packet.view(), from, *this);
    }
    Session& session = *sessions_[packet.to];
    const auto header = session.accept(packet.view());
    check(header.has_value(), "a worker does not know the switch's packet");
    session.on_reply(*header, packet.view(), now_);
    work(packet.to);
  }

  void work(std::uint16_t index) {
    Session& session = *sessions_[index];
    session.worker().on_tick(now_);
    Packet packet;
    packet.from = index;
    packet.to = kSwitch;
    while (const auto outgoing = session.next_packet(now_, packet.bytes.data())) {
      packet.size = static_cast<std::uint16_t>(outgoing->size);
      network_.send(packet, now_);
    }
    const auto due = session.worker().next_deadline();
    if (!due || (timers_[index] >= 0 && timers_[index] <= *due)) return;
    timers_[index] = std::max(*due, now_);
    events_.push(timers_[index], EventKind::kTimer, index);
  }

  void send(const Address& to, std::span<const std::uint8_t> bytes) override {
    Packet packet;
    packet.from = kSwitch;
    std::memcpy(&packet.to, to.bytes.data(), sizeof(packet.to));
    packet.size = static_cast<std::uint16_t>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), packet.bytes.begin());
    network_.send(packet, now_);
  }

  const Options& options_;
  Random random_;
  EventQueue events_;
  Network network_;
  DatagramAggregator aggregator_;
  std::vector<float> input_;
  std::vector<std::vector<float>> output_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<Nanoseconds> timers_;  // by worker: when its valid kTimer event is due; -1: it has none
  Nanoseconds now_ = 0;
};

void report(const Options& options) {
  std::printf("%u workers, %u slots, %zu packets\n", options.workers, options.slots, options.packets);
  for (const double loss : {0.0, 0.0001, 0.001, 0.01, 0.05}) {
    std::vector<double> times;
    double again = 0;
    for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
      const Figures figures = Sum(options, loss, seed).run();
      times.push_back(figures.times_limit);
      again += figures.sent_again / static_cast<double>(options.seeds);
    }
    std::sort(times.begin(), times.end());
    std::printf("loss %5.2f %%: %.3f (%.3f - %.3f) x the links, %.2f %% sent again\n", 100 * loss,
                times[times.size() / 2], times.front(), times.back(), 100 * again);
  }
}

}  // namespace
}  // namespace jaxina::sim

int main(int argc, char** argv) {
  if (argc < 4 || argc > 6) {
    std::fprintf(stderr, "usage: %s WORKERS SLOTS PACKETS [MICROSECONDS] [SEEDS]\n", argv[0]);
    return 2;
  }
  jaxina::sim::Options options{.workers = static_cast<std::uint32_t>(std::atoi(argv[1])),
                               .slots = static_cast<std::uint32_t>(std::atoi(argv[2])),
                               .packets = static_cast<std::size_t>(std::atoll(argv[3]))};
  if (argc > 4) options.delay = std::atoll(argv[4]) * jaxina::sim::kMicrosecond;
  if (argc > 5) options.seeds = static_cast<std::uint64_t>(std::atoll(argv[5]));
  jaxina::sim::report(options);
}
