// Tests sums of trees of tensors. A worker handles stretches of three chunks side by side: it reads one, quantizes
// another and writes a third. Wherever blocks fall in chunks, every tensor must have the sum that it has alone, and
// every pass must be the same as if nothing was done side by side.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "rdma_engine/transport/endpoint.h"
#include "tests/native/node_fixture.h"
#include "tests/native/test_seed.h"

namespace jaxina::testing::nodes {
namespace {

struct Operand {
  ElementType type;
  std::size_t count;
  Bytes in;
  bool in_place = false, streams = false;
  Bytes room = {};

  std::byte* out() {
    constexpr std::size_t kLine = 64;  // bytes of a cache line; streaming needs memory that is aligned to it
    room.resize(count * size_of(type) + kLine);
    return room.data() + (kLine - reinterpret_cast<std::uintptr_t>(room.data()) % kLine);
  }
  Tensor tensor() {
    if (in_place) std::copy(in.begin(), in.end(), out());
    return {type, count, in_place ? out() : in.data(), out(), streams};
  }
};

using Tree = std::vector<Operand>;

// Returns a tree of tensors. Workers with the same seed `shapes` have the same shapes. Most tensors are at most a chunk
// long.
Tree random_tree(std::uint64_t shapes, std::uint64_t values) {
  std::mt19937_64 shape(shapes), value(values);
  Tree tree(1 + shape() % 24);
  const bool mixed = shape() % 2 == 0;
  const std::size_t longest = shape() % 4 == 0 ? 20 * kBlock : 5 * kBlock;
  for (Operand& operand : tree) {
    operand.type = mixed ? kTypes[shape() % std::size(kTypes)] : kTypes[0];
    operand.count = shape() % 3 == 0 ? shape() % longest / kBlock * kBlock : shape() % longest;
    operand.in = random_tensor(operand.type, operand.count, value(), value() % 8 != 0);
    operand.in_place = value() % 2 == 0;
    operand.streams = value() % 2 == 0;
  }
  return tree;
}

// Sums the workers' collectives. trees[w] has those of worker w, which submits them all at once.
void sum(std::vector<std::vector<Tree>>& trees) {
  const std::vector<GroupConfig> configs = configs_for(Processes(trees.size(), 1));
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < trees.size(); ++w) {
    threads.emplace_back([&, w] {
      const std::unique_ptr<Endpoint> endpoint = join(configs[w]);
      for (Tree& tree : trees[w]) {
        Collective collective;
        for (Operand& operand : tree) collective.tensors.push_back(operand.tensor());
        endpoint->worker().submit(std::move(collective));
      }
      const Status status = run_to_end(*endpoint);
      EXPECT_TRUE(status.ok()) << status.text();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Trees, EveryTensorHasTheSumThatItHasAlone) {
  const std::uint64_t first = test_seed();
  for (std::uint64_t seed = first; seed < first + 150; ++seed) {
    const std::size_t workers = 1 + seed % 3;
    std::vector<std::vector<Tree>> together(workers), alone(workers);
    for (std::size_t w = 0; w < workers; ++w) {
      for (std::uint64_t t = 0; t < 3; ++t) {
        together[w].push_back(random_tree(10 * seed + t, 1000 * seed + 10 * w + t));
        for (const Operand& operand : together[w].back()) {
          alone[w].push_back({{operand.type, operand.count, operand.in}});
        }
      }
    }
    sum(together);
    sum(alone);
    for (std::size_t w = 0; w < workers; ++w) {
      std::size_t next = 0;
      for (Tree& tree : together[w]) {
        for (Operand& got : tree) {
          Operand& expected = alone[w][next++].front();
          const std::size_t size = size_of(got.type);
          for (std::size_t i = 0; i < got.count; ++i) {
            const std::byte *a = got.out() + i * size, *b = expected.out() + i * size;
            ASSERT_TRUE(std::equal(a, a + size, b) || (is_nan(got.type, a) && is_nan(got.type, b)))
                << "seed " << seed << " worker " << w << " tensor " << next - 1 << " of "
                << numerics::to_string(got.type) << ", element " << i << " of " << got.count;
          }
        }
      }
    }
  }
}

struct Sent {
  explicit Sent(const Pass& of) : pass(of), words(of.words, 0xa5a5'a5a5), exponents(of.exponents, 0xa5) {}
  Result result() const {
    return {pass.slot,        pass.epoch,   pass.fingerprint, words.size(),
            exponents.size(), words.data(), exponents.data(), Order::kHost};
  }
  using Order = numerics::Order;
  Pass pass;
  std::vector<std::uint32_t> words;
  std::vector<std::uint8_t> exponents;
};

// Returns everything that one worker alone sends. Its messages are written into memory that held something else before.
// The result of a pass comes when the next pass is sent.
std::vector<Sent> passes(std::vector<Tree>& trees, bool side_by_side, bool whole_chunks) {
  const JobShape shape({.devices = 1,
                        .workers = 1,
                        .slots = 2,
                        .block_size = kBlock,
                        .blocks_per_chunk = 4,
                        .whole_chunks = whole_chunks});
  Worker worker({.shape = shape, .timer = {}});
  for (Tree& tree : trees) {
    Collective collective;
    for (Operand& operand : tree) collective.tensors.push_back(operand.tensor());
    worker.submit(std::move(collective));
  }
  std::vector<Sent> all;
  std::optional<Sent> last;
  while (!worker.idle()) {
    const std::optional<Pass> pass = worker.next_pass(0);
    std::optional<Sent> sent;
    if (pass) sent.emplace(*pass);
    if (pass && last && side_by_side) {
      worker.exchange(*pass, sent->exponents.data(), false, sent->words.data(), numerics::Store::kWrite, last->result(),
                      0);
    } else {
      if (pass) worker.fill_exponents(*pass, sent->exponents.data(), false);
      if (pass) worker.fill_words(*pass, sent->words.data(), numerics::Store::kWrite);
      if (last) worker.on_result(last->result(), 0);
    }
    if (last) all.push_back(*last);
    last = std::move(sent);
    worker.pop_completed();
  }
  return all;
}

TEST(Trees, PassesAreTheSameSideBySideAndOneByOne) {
  const std::uint64_t first = test_seed();
  for (std::uint64_t seed = first; seed < first + 100; ++seed) {
    std::vector<Tree> trees;
    for (std::uint64_t t = 0; t < 3; ++t) trees.push_back(random_tree(10 * seed + t, 1000 * seed + t));
    std::vector<Tree> others = trees;
    const std::vector<Sent> one = passes(trees, true, seed % 2 == 0), other = passes(others, false, seed % 2 == 0);
    ASSERT_EQ(one.size(), other.size()) << "seed " << seed;
    for (std::size_t i = 0; i < one.size(); ++i) {
      ASSERT_EQ(std::pair(one[i].pass.slot, one[i].pass.epoch), std::pair(other[i].pass.slot, other[i].pass.epoch));
      ASSERT_EQ(one[i].exponents, other[i].exponents) << "seed " << seed << " pass " << i;
      ASSERT_EQ(one[i].words, other[i].words) << "seed " << seed << " pass " << i;
    }
  }
}

}  // namespace
}  // namespace jaxina::testing::nodes
