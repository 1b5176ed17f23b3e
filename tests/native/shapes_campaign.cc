// shapes_campaign COUNT [SEED]: tries random shapes of jobs, legal and not. An illegal shape must be refused with a
// typed error; the limits are written here once more. A legal shape must give sums that are right bit for bit, in one
// process, in shared memory, over udp or over roce. The program prints a line of totals. At the first shape that does
// neither, it prints the shape and exits with 1.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rdma_engine/engine/local_sum.h"
#include "tests/native/roce_fixture.h"

namespace jaxina::testing {
namespace {

enum class Way : std::uint8_t { kOneProcess, kEmbedded, kUdp, kRoce };
constexpr std::array kNames = {"one process", "embedded", "udp", "roce"};

struct Drawn {
  ShapeRequest request;
  Way way;
  std::size_t elements;
};

std::string to_string(const Drawn& d) {
  const ShapeRequest& r = d.request;
  return std::string(kNames[static_cast<std::size_t>(d.way)]) + ", " + std::to_string(r.workers) + " workers with " +
         std::to_string(r.devices) + " devices, " + std::to_string(r.slots) + " slots, blocks of " +
         std::to_string(r.block_size) + ", " + std::to_string(r.blocks_per_chunk) + " a chunk" +
         (r.whole_chunks ? ", whole chunks, " : ", ") + std::to_string(d.elements) + " elements";
}

// Whether the shape is within the limits, which follow from the packet: a UDP datagram holds a header of 36 bytes,
// exponents padded to 4, and words of 4 bytes. If blocks have whole groups of 4 words and no chunk must be whole, a
// chunk may hold words of 8 bits instead: four times as many blocks, but at most 64, and two words of a seed.
bool is_legal(const ShapeRequest& r) {
  const bool narrow = !r.whole_chunks && r.block_size % 4 == 0;
  const std::uint64_t exponents = narrow ? std::min(4ull * r.blocks_per_chunk, 64ull) : r.blocks_per_chunk;
  const std::uint64_t words = 1ull * r.block_size * r.blocks_per_chunk + (narrow ? 2 : 0);
  const std::uint64_t packet = 36 + (exponents + 3) / 4 * 4 + 4 * words;
  return r.workers >= 1 && r.workers <= 1024 && r.devices >= r.workers && r.devices <= 1024 && r.slots >= 1 &&
         r.slots <= 65535 && r.block_size >= 8 && r.block_size <= 16384 && r.blocks_per_chunk >= 1 &&
         r.blocks_per_chunk <= 64 && packet <= 65507;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine_() % n); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  // Draws a number. Every order of magnitude is equally likely.
  std::uint32_t magnitude(double low, double high) {
    const double share = static_cast<double>(below(1'000'000)) / 1e6;
    return static_cast<std::uint32_t>(low * std::pow(high / low, share));
  }
  // Returns the value, or now and then one of some awkward values.
  std::uint32_t or_awkward(std::uint32_t value) {
    constexpr std::uint32_t kAwkward[] = {0,     1,     7,     8,     63,         64,        65,    255,
                                          256,   1023,  1024,  1025,  2048,       3000,      16383, 16384,
                                          16385, 65535, 65536, 65537, 0x7fffffff, 0xffffffff};
    return one_in(12) ? kAwkward[below(std::size(kAwkward))] : value;
  }

 private:
  std::mt19937_64 engine_;
};

Drawn draw(std::uint64_t seed) {
  Random random(seed);
  Drawn d;
  d.way = static_cast<Way>(random.below(4));
  ShapeRequest& r = d.request;
  r.workers = d.way == Way::kOneProcess ? 1 : 2 + random.below(2);
  r.devices = d.way == Way::kOneProcess ? 1 + random.below(4) : r.workers;
  r.slots = random.or_awkward(random.magnitude(1, 40));
  r.block_size = random.or_awkward(random.magnitude(8, 5000));
  r.blocks_per_chunk = random.or_awkward(random.magnitude(1, 64));
  r.whole_chunks = random.one_in(8);
  if (random.one_in(40)) r.workers = random.or_awkward(r.workers);
  if (random.one_in(40)) r.devices = random.or_awkward(r.devices);
  const double chunk = std::min(65536.0, static_cast<double>(r.block_size) * r.blocks_per_chunk);
  d.elements = random.magnitude(1, std::max(2.0, std::min(40'000.0, 3 * chunk * std::min(r.slots, 8u))));
  return d;
}

// Sums on all workers, with one thread each. False if a sum is not exact, or ends in an error.
class Sum {
 public:
  Sum(std::uint32_t contributors, std::size_t elements, std::uint64_t seed) : outputs_(contributors) {
    for (std::uint32_t c = 0; c < contributors; ++c) inputs_.push_back(random_gradient(elements, seed + c));
    for (auto& output : outputs_) output.assign(elements, -7);
  }
  Collective collective(std::uint32_t c) {
    return {{{ElementType::kFloat32, inputs_[c].size(), inputs_[c].data(), outputs_[c].data()}}};
  }
  void run(std::uint32_t worker, Endpoint& endpoint) {
    endpoint.worker().submit(collective(worker));
    if (const Status status = run_to_end(endpoint, std::chrono::seconds(20)); !status.ok()) fail(status.text());
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why;
  }
  std::string judge(std::size_t block_size) const {
    if (!failure_.empty()) return failure_;
    const std::vector<float> expected = all_reduce_reference(inputs_, block_size);
    for (const auto& output : outputs_) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (!same(output[i], expected[i])) {
          return "element " + std::to_string(i) + " is " + std::to_string(output[i]) + " instead of " +
                 std::to_string(expected[i]);
        }
      }
    }
    return "";
  }

 private:
  std::vector<std::vector<float>> inputs_, outputs_;
  std::mutex mutex_;
  std::string failure_;
};

class Campaign {
 public:
  // Tries the seed's shape. Returns "" or what is wrong with it.
  std::string run(std::uint64_t seed) {
    const Drawn d = draw(seed);
    std::optional<JobShape> shape;
    try {
      shape.emplace(d.request);
    } catch (const Error& error) {
      ++refused_;
      const ErrorCode code = error.status().code;
      const bool typed = code == ErrorCode::kInvalidArgument || code == ErrorCode::kTooManyWorkers;
      if (is_legal(d.request)) return to_string(d) + ": refused: " + error.what();
      return typed ? "" : to_string(d) + ": the wrong error: " + error.what();
    }
    if (!is_legal(d.request)) return to_string(d) + ": taken, but not legal";
    // Hundreds of threads would tell nothing more about shapes.
    if (shape->workers() > 4 || shape->devices() > 16) return ++too_many_, "";
    try {
      const std::string wrong = sum(d, *shape, seed);
      if (!wrong.empty()) return to_string(d) + ": " + wrong;
      ++summed_[static_cast<std::size_t>(d.way)];
    } catch (const Error& error) {
      // The switch may reject a pool for which it has no memory.
      if (error.status().code != ErrorCode::kJobRejected) return to_string(d) + ": " + error.what();
      ++rejected_;
    }
    return "";
  }

  void print() const {
    std::printf(
        "%llu refused as illegal, %llu pools too large for the switch, %llu not run for their many workers; exact "
        "sums:",
        refused_.load(), rejected_.load(), too_many_.load());
    for (std::size_t way = 0; way < kNames.size(); ++way) std::printf(" %s %llu", kNames[way], summed_[way].load());
    std::printf("\n");
  }

 private:
  std::string sum(const Drawn& d, const JobShape& shape, std::uint64_t seed) {
    const JobSpec job{.job = next_job_++, .secret = seed, .shape = shape};
    if (d.way == Way::kOneProcess) {
      Sum sums(shape.devices(), d.elements, seed);
      std::vector<Collective> contributions;
      for (std::uint32_t c = 0; c < shape.devices(); ++c) contributions.push_back(sums.collective(c));
      LocalSum(shape).run(std::move(contributions));
      return sums.judge(shape.block_size());
    }
    if (shape.devices() != shape.workers()) return ++too_many_, "";  // here a worker is one device
    Sum sums(shape.workers(), d.elements, seed);
    const auto on_threads = [&](const auto& make) {
      std::vector<std::thread> threads;
      for (std::uint32_t w = 0; w < shape.workers(); ++w) {
        threads.emplace_back([&, w] {
          try {
            const std::unique_ptr<Endpoint> endpoint = make(w);
            sums.run(w, *endpoint);
          } catch (const Error& error) {
            sums.fail(error.what());
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    };
    if (d.way == Way::kEmbedded) {
      on_threads([&](std::uint32_t w) { return make_endpoint(member_of(job, w), EmbeddedConfig{}); });
    } else if (d.way == Way::kUdp) {
      udp_.add_job(job);
      on_threads([&](std::uint32_t w) { return config_for(job, w, udp_.ports()).join(); });
      udp_.remove_job(job.job);
    } else {
      roce_.add_job(job);
      on_threads([&](std::uint32_t w) { return roce_endpoint(roce_, member_of(job, w)); });
      roce_.remove_job(job.job);
    }
    return sums.judge(shape.block_size());
  }

  SoftwareSwitch udp_{{.ports = {}, .threads = 2}};
  RoceSwitch roce_{{.port = 0, .mtu = 4096}};
  std::atomic<std::uint32_t> next_job_ = 1;
  using Count = std::atomic<unsigned long long>;
  Count refused_ = 0, rejected_ = 0, too_many_ = 0;
  std::array<Count, 4> summed_{};
};

}  // namespace
}  // namespace jaxina::testing

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: shapes_campaign COUNT [SEED]\n");
    return 2;
  }
  const std::uint64_t count = std::strtoull(argv[1], nullptr, 10),
                      first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  jaxina::testing::Campaign campaign;
  std::atomic<std::uint64_t> next = first;
  std::atomic<bool> failed = false;
  std::vector<std::jthread> lanes;
  for (unsigned i = 0; i < std::max(2u, std::thread::hardware_concurrency()); ++i) {
    lanes.emplace_back([&] {
      for (std::uint64_t seed; !failed && (seed = next++) < first + count;) {
        const std::string wrong = campaign.run(seed);
        if (wrong.empty()) continue;
        failed = true;
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
      }
    });
  }
  lanes.clear();
  campaign.print();
  return failed ? 1 : 0;
}
