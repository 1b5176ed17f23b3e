// How long one float32 all-reduce through shared memory takes on this host without JAX, beside the memory's floor: every
// worker copying its input to its output once (memcpy), all at once.
//   embedded_bench WORKERS SLOTS BLOCKS_PER_CHUNK MEGABYTES ITERATIONS
// Workers are processes, as in a job. Sums and copies take turns.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "rdma_engine/engine/result_memory.h"
#include "rdma_engine/transport/embedded/futex.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina {
namespace {

constexpr int kMaxIterations = 500;

struct Sample {
  double wall_ms;
  double cpu_ms;  // of this process
};

// In memory that all workers share.
struct Shared {
  std::atomic<std::uint32_t> arrived[4 * (kMaxIterations + 2)];
  embedded::Event turn;
};

double cpu_milliseconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](timeval t) { return 1e3 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_usec); };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

class Barrier {
 public:
  Barrier(Shared& shared, std::uint32_t workers) : shared_(shared), workers_(workers) {}
  void wait() {
    const std::uint32_t turn = turn_++;
    if (shared_.arrived[turn].fetch_add(1) + 1 == workers_) {
      shared_.turn.set(turn + 1);
    } else if (!shared_.turn.wait(turn + 1, 0, 60'000'000'000) && shared_.turn.value.load() <= turn) {
      std::fprintf(stderr, "a worker does not come\n");
      std::exit(1);
    }
  }

 private:
  Shared& shared_;
  const std::uint32_t workers_;
  std::uint32_t turn_ = 0;
};

float* room(std::size_t count) {
  void* memory = mmap(nullptr, count * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::perror("mmap"), std::exit(1);
  advise_huge_pages(memory, count * 4);
  return static_cast<float*>(memory);
}

void print(const char* what, std::vector<Sample> samples, double bytes) {
  const auto median = [&](double Sample::*field) {
    std::sort(samples.begin(), samples.end(), [&](auto& a, auto& b) { return a.*field < b.*field; });
    return samples[samples.size() / 2].*field;
  };
  const double wall = median(&Sample::wall_ms), cpu = median(&Sample::cpu_ms);
  std::printf("%-6s median %7.2f ms (%5.2f GB/s), best %7.2f ms; a worker's processor time %7.2f ms\n", what, wall,
              bytes / wall / 1e6, std::min_element(samples.begin(), samples.end(), [](auto& a, auto& b) {
                return a.wall_ms < b.wall_ms;
              })->wall_ms, cpu);
}

void worker(EndpointConfig config, std::uint32_t rank, Shared& shared, std::size_t count, int iterations) {
  config.worker = rank;
  const std::unique_ptr<Endpoint> endpoint = make_embedded_endpoint(config);
  float *in = room(count), *out = room(count);
  std::fill(in, in + count, 0.25f * static_cast<float>(rank + 1));
  std::fill(out, out + count, 0.0f);
  Barrier barrier(shared, config.workers);
  std::vector<Sample> sums, copies;
  const auto timed = [&](std::vector<Sample>& samples, bool keep, const std::function<void()>& run) {
    barrier.wait();
    const double cpu = cpu_milliseconds();
    const Nanoseconds begun = embedded::now();
    run();
    const double own = cpu_milliseconds() - cpu;
    barrier.wait();
    if (keep) samples.push_back({1e-6 * static_cast<double>(embedded::now() - begun), own});
  };
  const float expected = 0.125f * static_cast<float>(config.workers * (config.workers + 1));
  for (int i = -2; i < iterations; ++i) {  // the first two warm up
    timed(copies, i >= 0, [&] { std::memcpy(out, in, 4 * count); });
    timed(sums, i >= 0, [&] {
      endpoint->worker().submit({{{ElementType::kFloat32, count, in, out, 4 * count >= kStreamedBytes}}});
      while (!endpoint->worker().idle()) {
        const Status status = endpoint->progress(100'000'000);
        if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str()), std::exit(1);
        endpoint->worker().pop_completed();
      }
    });
    if (out[0] != expected || out[count - 1] != expected) std::fprintf(stderr, "wrong sum\n"), std::exit(1);
  }
  if (rank == 0) {
    print("copy", copies, 4.0 * static_cast<double>(count));
    print("sum", sums, 4.0 * static_cast<double>(count));
  }
}

int run(EndpointConfig config, std::size_t count, int iterations) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("mmap"), 1;
  Shared& shared = *new (memory) Shared{};
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < config.workers; ++rank) {
    const pid_t child = fork();
    if (child < 0) return std::perror("fork"), 1;
    if (child == 0) {
      worker(config, rank, shared, count, iterations);
      std::exit(0);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed |= status;
  }
  return failed != 0;
}

}  // namespace
}  // namespace jaxina

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "embedded_bench WORKERS SLOTS BLOCKS_PER_CHUNK MEGABYTES ITERATIONS\n");
    return 2;
  }
  const auto number = [&](int i) { return static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)); };
  jaxina::EndpointConfig config;
  config.transport = "embedded";
  config.devices = config.workers = number(1);
  config.job = 1;
  config.secret = static_cast<std::uint64_t>(getpid());
  config.slots = number(2);
  config.blocks_per_chunk = number(3);
  config.segment = "jaxina-embedded-bench-" + std::to_string(getpid());
  return jaxina::run(config, std::size_t{number(4)} * 250'000,
                     std::min(static_cast<int>(number(5)), jaxina::kMaxIterations));
}
