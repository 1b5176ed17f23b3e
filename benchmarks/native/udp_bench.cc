// How long one float32 all-reduce over the udp transport takes on this host, beside a plain echo of the same bytes:
//   udp_bench sum  WORKERS THREADS SLOTS BLOCKS_PER_CHUNK MEGABYTES ITERATIONS
//   udp_bench echo WORKERS PACKET_BYTES WINDOW_PACKETS MEGABYTES ITERATIONS
// Workers are threads of this process; the switch's threads come on top of them.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/switch/software_switch.h"
#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/transport/udp/datagram_receiver.h"
#include "rdma_engine/transport/udp/datagram_sender.h"

namespace jaxina {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Processor time of all threads, which other work on the machine does not change as it does the clock's.
double cpu_milliseconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

void report(std::vector<double> times, std::vector<double> cpu, double bytes, const std::string& extra) {
  std::sort(times.begin(), times.end());
  std::sort(cpu.begin(), cpu.end());
  const double median = times[times.size() / 2];
  std::printf("median %.1f ms (%.2f GB/s), best %.1f ms; processor time %.1f ms%s\n", median, bytes / median / 1e6,
              times.front(), cpu[cpu.size() / 2], extra.c_str());
}

void sum(std::uint32_t workers, std::uint32_t threads, JobSpec job, std::size_t bytes, int iterations) {
  SoftwareSwitch software_switch({.ports = {}, .threads = threads});
  job.workers = workers;
  software_switch.add_job(job);
  std::barrier barrier(workers);
  std::vector<double> times, cpu;
  std::atomic<std::uint64_t> packets = 0, retransmissions = 0;
  std::vector<std::thread> pool;
  for (std::uint32_t w = 0; w < workers; ++w) {
    pool.emplace_back([&, w] {
      EndpointConfig config;
      config.devices = workers;
      config.workers = workers;
      config.worker = w;
      config.job = job.job;
      config.secret = job.secret;
      config.slots = job.slots;
      config.block_size = job.block_size;
      config.blocks_per_chunk = job.blocks_per_chunk;
      config.address = "127.0.0.1";
      config.ports = software_switch.ports();
      const std::unique_ptr<Endpoint> endpoint = make_udp_endpoint(config);
      std::vector<float> in(bytes / 4, 0.25f * static_cast<float>(w + 1)), out(bytes / 4);
      for (int i = -1; i < iterations; ++i) {  // the first is a warm-up
        barrier.arrive_and_wait();
        const auto start = Clock::now();
        const double cpu_start = cpu_milliseconds();
        endpoint->worker().submit({{{ElementType::kFloat32, in.size(), in.data(), out.data()}}});
        while (!endpoint->worker().idle()) {
          const Status status = endpoint->progress(100'000'000);
          if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str()), std::exit(1);
          endpoint->worker().pop_completed();
        }
        barrier.arrive_and_wait();
        if (w == 0 && i >= 0) {
          times.push_back(milliseconds_since(start));
          cpu.push_back(cpu_milliseconds() - cpu_start);
        }
        const float expected = 0.125f * static_cast<float>(workers * (workers + 1));
        if (out.front() != expected || out.back() != expected) std::fprintf(stderr, "wrong sum\n"), std::exit(1);
      }
      packets += endpoint->statistics().packets_sent;
      retransmissions += endpoint->statistics().retransmissions;
    });
  }
  for (std::thread& t : pool) t.join();
  report(times, cpu, static_cast<double>(bytes),
         ", " + std::to_string(retransmissions) + " of " + std::to_string(packets) + " packets sent again");
}

// Each worker keeps `window` packets on their way to an echo and back.
void echo(std::uint32_t workers, std::size_t packet, std::size_t window, std::size_t bytes, int iterations) {
  const auto loopback = [](std::uint16_t port) { return udp::resolve("127.0.0.1", port, ErrorCode::kSystem); };
  udp::UdpSocket server(loopback(0), {});
  const Address server_address = server.local();
  std::atomic<bool> done = false;
  std::thread echo_thread([&] {
    udp::DatagramReceiver receiver(server);
    udp::DatagramSender sender(server);
    while (!done) {
      const std::size_t packets = receiver.receive([&](std::span<const std::uint8_t> bytes, const Address& from) {
        std::uint8_t* room = sender.reserve(bytes.size());
        if (room == nullptr) {
          static_cast<void>(sender.flush());
          room = sender.reserve(bytes.size());
        }
        std::memcpy(room, bytes.data(), bytes.size());
        sender.add(from, {room, bytes.size()});
      });
      static_cast<void>(sender.flush());
      if (packets == 0) server.wait_readable(10'000'000);
    }
  });
  std::barrier barrier(workers);
  std::vector<double> times, cpu;
  std::vector<std::thread> pool;
  for (std::uint32_t w = 0; w < workers; ++w) {
    pool.emplace_back([&, w] {
      udp::UdpSocket socket(loopback(0), {});
      udp::DatagramReceiver receiver(socket);
      udp::DatagramSender sender(socket);
      for (int i = -1; i < iterations; ++i) {
        barrier.arrive_and_wait();
        const auto start = Clock::now();
        const double cpu_start = cpu_milliseconds();
        const std::size_t total = bytes / packet;
        std::size_t sent = 0, received = 0;
        while (received < total) {
          while (sent < total && sent - received < window) {
            std::uint8_t* room = sender.reserve(packet);
            if (room == nullptr) {
              static_cast<void>(sender.flush());
              continue;
            }
            sender.add(server_address, {room, packet});
            ++sent;
          }
          static_cast<void>(sender.flush());
          const std::size_t got = receiver.receive([](std::span<const std::uint8_t>, const Address&) {});
          received += got;
          if (got == 0) socket.wait_readable(10'000'000);
          if (milliseconds_since(start) > 30'000) std::fprintf(stderr, "a packet was lost\n"), std::exit(1);
        }
        barrier.arrive_and_wait();
        if (w == 0 && i >= 0) {
          times.push_back(milliseconds_since(start));
          cpu.push_back(cpu_milliseconds() - cpu_start);
        }
      }
    });
  }
  for (std::thread& t : pool) t.join();
  done = true;
  echo_thread.join();
  report(times, cpu, static_cast<double>(bytes), "");
}

}  // namespace
}  // namespace jaxina

int main(int argc, char** argv) {
  const auto number = [&](int i) { return static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)); };
  if (argc == 8 && std::string(argv[1]) == "sum") {
    jaxina::sum(number(2), number(3),
                {.job = 1, .secret = 42, .workers = 0, .slots = number(4), .block_size = 256, .blocks_per_chunk = number(5)},
                std::size_t{number(6)} * 1'000'000, static_cast<int>(number(7)));
    return 0;
  }
  if (argc == 7 && std::string(argv[1]) == "echo") {
    jaxina::echo(number(2), number(3), number(4), std::size_t{number(5)} * 1'000'000, static_cast<int>(number(6)));
    return 0;
  }
  std::fprintf(stderr, "udp_bench sum WORKERS THREADS SLOTS BLOCKS_PER_CHUNK MEGABYTES ITERATIONS\n"
                       "udp_bench echo WORKERS PACKET_BYTES WINDOW_PACKETS MEGABYTES ITERATIONS\n");
  return 2;
}
