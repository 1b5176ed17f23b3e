// Measures a float32 all-reduce over the udp transport, without JAX, by turns with a plain echo of the same packets:
//   udp_bench WORKERS THREADS SLOTS BLOCKS_PER_CHUNK MEGABYTES ITERATIONS [testbed] [no-echo] [encrypted]
// Workers are threads of this process, besides the THREADS threads of the switch or the echo. With `testbed` each
// worker and the server work in their namespaces of the testbed that `jaxina testbed up` has made; otherwise all use
// loopback. In both measurements every worker keeps SLOTS packets on their way. The figures per core compare the
// processor time of the serving threads: both move the same, each worker's bytes once in and once out. The echo does
// not survive loss, so leave it out (no-echo) if links lose packets. With `encrypted`, sums with encrypted packets take
// turns with the others.
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/net/datagram_receiver.h"
#include "rdma_engine/net/datagram_sender.h"
#include "rdma_engine/switch/software_switch.h"
#include "rdma_engine/transport/endpoint.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::uint32_t workers, threads, slots, blocks_per_chunk;
  std::size_t bytes;
  int iterations;
  bool testbed = false, echo = true, encrypted = false;
  const char* server() const { return testbed ? "198.18.0.1" : "127.0.0.1"; }
};

void check(bool ok, const std::string& what) {
  if (!ok) std::fprintf(stderr, "%s\n", what.c_str()), std::exit(1);
}

// Makes this thread, and threads that it starts, use the namespace's network from now on.
void enter(const Options& options, const std::string& name) {
  if (!options.testbed) return;
  const std::string file = "/run/netns/jaxina-" + name;
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  check(fd >= 0 && setns(fd, CLONE_NEWNET) == 0, "cannot enter " + file + ": is a testbed up, and is this root?");
  close(fd);
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double cpu_milliseconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

// The times of one round in ms: `wall` from the start to the end of the slowest worker, `all` the processor time of all
// threads, `serving` the serving threads' part of it.
struct Times {
  double wall, all, serving;
};

// Runs work(worker, start) in a thread for each worker; start() waits until all workers have called it. Returns the
// times from then to the end of the last worker. The processor time of all other threads counts as serving.
template <typename Work>
Times run_workers(const Options& options, Work work) {
  std::barrier<> barrier(options.workers);
  std::vector<std::thread> pool;
  std::atomic<double> working = 0;
  double wall = 0, all = 0;
  for (std::uint32_t w = 0; w < options.workers; ++w) {
    pool.emplace_back([&, w] {
      enter(options, "worker-" + std::to_string(w));
      Clock::time_point start;
      double own = 0, everybody = 0;
      work(w, [&] {
        barrier.arrive_and_wait();
        start = Clock::now();
        own = cpu_milliseconds(CLOCK_THREAD_CPUTIME_ID);
        everybody = cpu_milliseconds(CLOCK_PROCESS_CPUTIME_ID);
        barrier.arrive_and_wait();
      });
      working += cpu_milliseconds(CLOCK_THREAD_CPUTIME_ID) - own;
      barrier.arrive_and_wait();
      if (w != 0) return;
      wall = milliseconds_since(start);
      all = cpu_milliseconds(CLOCK_PROCESS_CPUTIME_ID) - everybody;
    });
  }
  for (std::thread& t : pool) t.join();
  return {wall, all, all - working};
}

// The workers' buffers. They are made once, because the kernel would clear fresh memory within the measured time.
struct Buffers {
  explicit Buffers(const Options& options) {
    for (std::uint32_t w = 0; w < options.workers; ++w) {
      in.emplace_back(options.bytes / 4, 0.25f * static_cast<float>(w + 1));
      out.emplace_back(options.bytes / 4);
    }
  }
  std::vector<std::vector<float>> in, out;
};

struct Packets {
  std::uint64_t sent = 0, retransmissions = 0;
};

Times sum(const Options& options, Buffers& buffers, Packets& packets, std::optional<JobKey> key = {}) {
  const std::uint32_t n = options.workers;
  const JobSpec job{.job = 1,
                    .secret = 42,
                    .shape = JobShape({.devices = n,
                                       .workers = n,
                                       .slots = options.slots,
                                       .block_size = 256,
                                       .blocks_per_chunk = options.blocks_per_chunk}),
                    .key = key};
  std::unique_ptr<SoftwareSwitch> software_switch;
  std::thread([&] {
    enter(options, "switch");
    software_switch = std::make_unique<SoftwareSwitch>(
        SwitchConfig{.address = options.server(), .ports = {}, .threads = options.threads});
  }).join();
  software_switch->add_job(job);
  std::atomic<std::uint64_t> sent = 0, retransmissions = 0;
  const Times times = run_workers(options, [&](std::uint32_t w, auto start) {
    const std::unique_ptr<Endpoint> endpoint =
        make_endpoint({.shape = job.shape, .worker = w, .job = job.job, .secret = job.secret},
                      UdpConfig{.addresses = ports_of(options.server(), software_switch->ports()), .key = key});
    std::vector<float>&in = buffers.in[w], &out = buffers.out[w];
    start();
    endpoint->worker().submit({{{ElementType::kFloat32, in.size(), in.data(), out.data()}}});
    while (!endpoint->worker().idle()) {
      const Status status = endpoint->progress(100'000'000);
      check(status.ok(), status.text());
      endpoint->worker().pop_completed();
    }
    const float expected = 0.125f * static_cast<float>(n * (n + 1));
    check(out.front() == expected && out.back() == expected, "wrong sum");
    sent += endpoint->statistics()[Counter::kPacketsSent];
    retransmissions += endpoint->statistics()[Counter::kRetransmissions];
  });
  packets.sent += sent;
  packets.retransmissions += retransmissions;
  return times;
}

void serve_echo(net::UdpSocket& socket, const std::atomic<bool>& done) {
  net::DatagramReceiver receiver(socket);
  net::DatagramSender sender(socket, net::WhenFull::kWait);
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
    if (packets == 0) socket.wait_readable(10'000'000);
  }
}

Times echo(const Options& options) {
  const auto bind = [&](const std::string& host) {
    return std::make_unique<net::UdpSocket>(net::resolve(host, 0, ErrorCode::kSystem), net::SocketOptions{});
  };
  std::vector<std::unique_ptr<net::UdpSocket>> servers(options.threads);
  std::vector<std::thread> threads;
  std::atomic<bool> done = false;
  std::barrier<> ready(options.threads + 1);
  for (std::unique_ptr<net::UdpSocket>& server : servers) {
    threads.emplace_back([&] {
      enter(options, "switch");
      server = bind(options.server());
      ready.arrive_and_wait();
      serve_echo(*server, done);
    });
  }
  ready.arrive_and_wait();
  const std::size_t size = wire::packet_size(std::size_t{256} * options.blocks_per_chunk, options.blocks_per_chunk);
  const std::size_t total = options.bytes / (std::size_t{1024} * options.blocks_per_chunk);
  const Times times = run_workers(options, [&](std::uint32_t w, auto start) {
    const std::unique_ptr<net::UdpSocket> socket =
        bind(options.testbed ? "198.18.1." + std::to_string(w + 1) : options.server());
    net::DatagramReceiver receiver(*socket);
    net::DatagramSender sender(*socket, net::WhenFull::kWait);
    std::vector<Address> to;
    for (const auto& server : servers) to.push_back(server->local());
    start();
    const auto begun = Clock::now();
    for (std::size_t sent = 0, received = 0; received < total;) {
      while (sent < total && sent - received < options.slots) {
        std::uint8_t* room = sender.reserve(size);
        if (room == nullptr) break;
        sender.add(to[sent % to.size()], {room, size});
        ++sent;
      }
      static_cast<void>(sender.flush());
      const std::size_t got = receiver.receive([](std::span<const std::uint8_t>, const Address&) {});
      received += got;
      if (got == 0) socket->wait_readable(10'000'000);
      check(milliseconds_since(begun) < 30'000, "a packet of the echo was lost");
    }
  });
  done = true;
  for (std::thread& t : threads) t.join();
  return times;
}

std::string spread(std::vector<double> values, int digits) {
  std::sort(values.begin(), values.end());
  char text[96];
  std::snprintf(text, sizeof(text), "%.*f (%.*f - %.*f)", digits, values[values.size() / 2], digits, values.front(),
                digits, values.back());
  return text;
}

void report(const char* name, const std::vector<Times>& rounds, const std::string& extra) {
  std::vector<double> wall, all, serving;
  for (const Times& t : rounds) wall.push_back(t.wall), all.push_back(t.all), serving.push_back(t.serving);
  std::printf("%s: %s ms; processor time %s ms, serving threads' %s ms%s\n", name, spread(wall, 1).c_str(),
              spread(all, 0).c_str(), spread(serving, 0).c_str(), extra.c_str());
}

void compare(const Options& options) {
  Buffers buffers(options);
  Packets warm_up, packets, of_encrypted;
  const JobKey key{.bytes = {1, 2, 3}};
  sum(options, buffers, warm_up);
  if (options.encrypted) sum(options, buffers, warm_up, key);
  std::vector<Times> sums, encrypted, echoes;
  std::vector<double> ratios, slower;
  for (int i = 0; i < options.iterations; ++i) {
    sums.push_back(sum(options, buffers, packets));
    if (options.encrypted) {
      encrypted.push_back(sum(options, buffers, of_encrypted, key));
      slower.push_back(sums.back().wall / encrypted.back().wall);
    }
    if (!options.echo) continue;
    echoes.push_back(echo(options));
    ratios.push_back(echoes.back().serving / sums.back().serving);
  }
  std::printf("median (least - most) of %d rounds\n", options.iterations);
  const auto again = [](const Packets& counted) {
    return "; " + std::to_string(counted.retransmissions) + " of " + std::to_string(counted.sent) +
           " packets sent again";
  };
  report("sum ", sums, again(packets));
  if (options.encrypted) {
    report("encrypted", encrypted, again(of_encrypted));
    std::printf("encrypted sums have %s times the throughput of the others\n", spread(slower, 2).c_str());
  }
  if (!options.echo) return;
  report("echo", echoes, "");
  std::printf("the switch moves %s times what the echo moves per core\n", spread(ratios, 2).c_str());
}

}  // namespace
}  // namespace jaxina

int main(int argc, char** argv) {
  const auto number = [&](int i) { return static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)); };
  bool known = argc >= 7;
  jaxina::Options options{};
  for (int i = 7; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "testbed") options.testbed = true;
    else if (word == "no-echo") options.echo = false;
    else if (word == "encrypted") options.encrypted = true;
    else known = false;
  }
  if (!known) {
    std::fprintf(stderr,
                 "udp_bench WORKERS THREADS SLOTS BLOCKS_PER_CHUNK MEGABYTES ITERATIONS [testbed] [no-echo] "
                 "[encrypted]\n");
    return 2;
  }
  options.workers = number(1);
  options.threads = number(2);
  options.slots = number(3);
  options.blocks_per_chunk = number(4);
  options.bytes = std::size_t{number(5)} * 1'000'000;
  options.iterations = static_cast<int>(number(6));
  jaxina::compare(options);
  return 0;
}
