// Measures how long one all-reduce of floats through shared memory takes on this host, without JAX. For comparison it
// measures the least that the memory allows: all workers at once copy their input to their output (memcpy).
//   embedded_bench WORKERS SLOTS BLOCKS_PER_CHUNK MEGABYTES ITERATIONS [float32|float16|bfloat16 [TENSORS]]
// Workers are processes, as in a job. Sums and copies take turns. "late" is a sum to which the last worker comes
// `kLateness` after the others, as workers do when they compute different things; it is counted from then on. With
// TENSORS it also sums the same elements as so many tensors in one collective. "line" is how long a cache line takes
// from worker 0's core to worker 1's. The host of a virtual machine may move its cores apart and together, and then all
// times change.
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
#include <thread>
#include <vector>

#include "rdma_engine/base/clock.h"
#include "rdma_engine/engine/result_memory.h"
#include "rdma_engine/numerics/narrow_float.h"
#include "rdma_engine/transport/embedded/futex.h"
#include "rdma_engine/transport/endpoint.h"

namespace jaxina {
namespace {

constexpr int kMaxIterations = 500;
constexpr Nanoseconds kLongestWait = 60'000'000'000;
constexpr Nanoseconds kLateness = 300'000;
constexpr std::uint32_t kRoundTrips = 1000;  // of a cache line, in each iteration
constexpr std::uint32_t kBarriers = 11;      // at most so many in each iteration

struct Sample {
  double wall_ms;
  double cpu_ms;  // of this process
};

// The memory that all workers share.
struct Shared {
  std::atomic<std::uint32_t> arrived[kBarriers * (kMaxIterations + 2)];
  embedded::Event turn;
  alignas(128) std::atomic<std::uint32_t> line;  // goes from worker 0 to worker 1 and back
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
    } else if (!shared_.turn.wait(turn + 1, 0, kLongestWait) && shared_.turn.value.load() <= turn) {
      std::fprintf(stderr, "a worker does not come\n");
      std::exit(1);
    }
  }

 private:
  Shared& shared_;
  const std::uint32_t workers_;
  std::uint32_t turn_ = 0;
};

std::byte* room(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::perror("mmap"), std::exit(1);
  advise_huge_pages(memory, bytes);
  return static_cast<std::byte*>(memory);
}

// Sends a cache line back and forth between workers 0 and 1. Returns how long it takes one way, in ns.
double line_time(std::atomic<std::uint32_t>& line, std::uint32_t worker) {
  if (worker > 1) return 0;
  const std::uint32_t first = line.load() / 2 * 2;  // worker 0 may have begun
  const Nanoseconds begun = now();
  for (std::uint32_t i = 0; i < kRoundTrips; ++i) {
    const std::uint32_t mine = first + 2 * i + worker;
    for (std::uint32_t spins = 0; line.load(std::memory_order_acquire) != mine; ++spins) {
      if (spins % 4096 != 4095) continue;
      std::this_thread::yield();  // the other one may need this core
      if (now() > begun + kLongestWait) std::fprintf(stderr, "a worker does not come\n"), std::exit(1);
    }
    line.store(mine + 1, std::memory_order_release);
  }
  return static_cast<double>(now() - begun) / (2 * kRoundTrips);
}

// Waits without giving up the core, as a worker does that computes.
void pause_until(Nanoseconds time) {
  while (now() < time) embedded::relax();
}

void print_lines(std::vector<double> lines) {
  std::sort(lines.begin(), lines.end());
  std::printf("line   median %7.0f ns, best %7.0f ns, worst %7.0f ns\n", lines[lines.size() / 2], lines.front(),
              lines.back());
}

void print(const char* what, std::vector<Sample> samples, double bytes) {
  const auto median = [&](double Sample::* field) {
    std::sort(samples.begin(), samples.end(), [&](auto& a, auto& b) { return a.*field < b.*field; });
    return samples[samples.size() / 2].*field;
  };
  const double wall = median(&Sample::wall_ms), cpu = median(&Sample::cpu_ms);
  std::printf(
      "%-6s median %7.2f ms (%5.2f GB/s), best %7.2f ms; a worker's processor time %7.2f ms\n", what, wall,
      bytes / wall / 1e6,
      std::min_element(samples.begin(), samples.end(), [](auto& a, auto& b) { return a.wall_ms < b.wall_ms; })->wall_ms,
      cpu);
}

// The elements that the workers sum.
struct Elements {
  ElementType type;
  std::size_t bytes;  // of all elements
  std::size_t size() const { return numerics::element_codec(type).size; }
  std::size_t count() const { return bytes / size(); }
  void put(float x, std::byte* to) const {
    numerics::Float16 half;
    numerics::Bfloat16 brain;
    numerics::narrow(x, half), numerics::narrow(x, brain);
    const void* from = type == ElementType::kFloat32   ? static_cast<const void*>(&x)
                       : type == ElementType::kFloat16 ? static_cast<const void*>(&half)
                                                       : &brain;
    std::memcpy(to, from, size());
  }
  void fill(float x, std::byte* memory) const {
    for (std::size_t i = 0; i < count(); ++i) put(x, memory + i * size());
  }
  bool is(float x, const std::byte* at) const {
    std::byte expected[4];
    put(x, expected);
    return std::memcmp(at, expected, size()) == 0;
  }
  // Splits the elements into tensors. Each begins at a cache line, as XLA's do, and ends at the end of a block only by
  // chance.
  std::vector<Tensor> tensors(std::size_t number, const std::byte* in, std::byte* out) const {
    constexpr std::size_t kLine = 64;
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < number; ++i) {
      const std::size_t first = i * bytes / number / kLine * kLine;
      const std::size_t past = i + 1 == number ? count() * size() : (i + 1) * bytes / number / kLine * kLine;
      result.push_back({type, (past - first) / size(), in + first, out + first, bytes >= kStreamedBytes});
    }
    return result;
  }
};

void worker(Membership member, const EmbeddedConfig& config, std::uint32_t rank, Shared& shared,
            const Elements& elements, int iterations, std::size_t tensors) {
  member.worker = rank;
  const std::unique_ptr<Endpoint> endpoint = make_endpoint(member, config);
  const std::size_t bytes = elements.bytes;
  std::byte *in = room(bytes), *out = room(bytes);
  elements.fill(0.25f * static_cast<float>(rank + 1), in);
  elements.fill(0, out);
  const std::uint32_t workers = member.shape.workers();
  Barrier barrier(shared, workers);
  std::vector<Sample> sums, lates, trees, copies;
  std::vector<double> lines;
  // Each time is counted from when the last worker begins.
  const auto timed = [&](std::vector<Sample>& samples, bool keep, const std::function<void()>& run,
                         Nanoseconds lateness = 0) {
    barrier.wait();
    const Nanoseconds begun = now() + lateness;
    if (rank + 1 == workers) pause_until(begun);
    const double cpu = cpu_milliseconds();
    run();
    const double own = cpu_milliseconds() - cpu;
    barrier.wait();
    if (keep) samples.push_back({1e-6 * static_cast<double>(now() - begun), own});
  };
  const float expected = 0.125f * static_cast<float>(workers * (workers + 1));
  const auto sum = [&](std::vector<Tensor> of) {
    endpoint->worker().submit({std::move(of)});
    while (!endpoint->worker().idle()) {
      const Status status = endpoint->progress(100'000'000);
      if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str()), std::exit(1);
      endpoint->worker().pop_completed();
    }
  };
  const auto check = [&] {
    const std::byte* last = out + (elements.count() - 1) * elements.size();
    if (!elements.is(expected, out) || !elements.is(expected, last)) std::fprintf(stderr, "wrong sum\n"), std::exit(1);
  };
  for (int i = -2; i < iterations; ++i) {  // the first two iterations warm up
    const bool keep = i >= 0;
    if (workers > 1) {
      barrier.wait();
      const double line = line_time(shared.line, rank);
      if (keep) lines.push_back(line);
    }
    timed(copies, keep, [&] { std::memcpy(out, in, bytes); });
    timed(sums, keep, [&] { sum(elements.tensors(1, in, out)); });
    check();
    timed(lates, keep, [&] { sum(elements.tensors(1, in, out)); }, kLateness);
    check();
    if (tensors == 0) continue;
    timed(copies, false, [&] { std::memcpy(out, in, bytes); });
    timed(trees, keep, [&] { sum(elements.tensors(tensors, in, out)); });
    check();
  }
  if (rank == 0) {
    print("copy", copies, static_cast<double>(bytes));
    print("sum", sums, static_cast<double>(bytes));
    print("late", lates, static_cast<double>(bytes));
    if (tensors > 0) print("tree", trees, static_cast<double>(bytes));
    if (workers > 1) print_lines(lines);
  }
}

int run(const Membership& member, const EmbeddedConfig& config, const Elements& elements, int iterations,
        std::size_t tensors) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("mmap"), 1;
  Shared& shared = *new (memory) Shared{};
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < member.shape.workers(); ++rank) {
    const pid_t child = fork();
    if (child < 0) return std::perror("fork"), 1;
    if (child == 0) {
      worker(member, config, rank, shared, elements, iterations, tensors);
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
  const std::string type = argc >= 7 ? argv[6] : "float32";
  const bool known = type == "float32" || type == "float16" || type == "bfloat16";
  if (argc < 6 || argc > 8 || !known) {
    std::fprintf(
        stderr,
        "embedded_bench WORKERS SLOTS BLOCKS_PER_CHUNK MEGABYTES ITERATIONS [float32|float16|bfloat16 [TENSORS]]\n");
    return 2;
  }
  const auto number = [&](int i) { return static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)); };
  const jaxina::Membership member{.shape = jaxina::JobShape({.devices = number(1),
                                                             .workers = number(1),
                                                             .slots = number(2),
                                                             .block_size = 256,
                                                             .blocks_per_chunk = number(3)}),
                                  .job = 1,
                                  .secret = static_cast<std::uint64_t>(getpid())};
  const jaxina::EmbeddedConfig config{"jaxina-embedded-bench-" + std::to_string(getpid())};
  const auto element = type == "float16"    ? jaxina::ElementType::kFloat16
                       : type == "bfloat16" ? jaxina::ElementType::kBfloat16
                                            : jaxina::ElementType::kFloat32;
  return jaxina::run(member, config, {element, std::size_t{number(4)} * 1'000'000},
                     std::min(static_cast<int>(number(5)), jaxina::kMaxIterations), argc == 8 ? number(7) : 0);
}
