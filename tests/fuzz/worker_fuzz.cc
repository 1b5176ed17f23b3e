// A worker fed with results in any order: right ones, old ones, and ones with numbers and payloads that are wrong.
// It sums alone (n = 1), so what it sent is what must come back.
#include <deque>
#include <vector>

#include "rdma_engine/worker/worker.h"
#include "tests/fuzz/input.h"

using namespace jaxina;
using fuzz::require;

namespace {

struct Answer {
  Pass pass;
  std::vector<std::uint32_t> words;
  std::vector<std::uint8_t> exponents;
};

Result result_of(const Answer& answer) {
  return {answer.pass.slot, answer.pass.epoch, answer.pass.fingerprint, answer.words.size(), answer.exponents.size(),
          answer.words.data(), answer.exponents.data(), numerics::Order::kHost};
}

struct Sum {
  std::vector<std::uint32_t> in, out;
  bool integers;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const Geometry geometry{.slots = 1 + input.below(4), .block_size = 1 + input.below(5), .blocks_per_chunk = 1 + input.below(3)};
  Worker worker({1, geometry, {.initial = 100, .minimum = 10, .maximum = 1000}});
  std::deque<Sum> sums;
  std::size_t completed = 0;
  std::vector<Answer> answers;
  Nanoseconds now = 0;
  while (!input.empty()) {
    now += input.below(64);
    switch (input.below(8)) {
      case 0: {
        Sum sum{std::vector<std::uint32_t>(input.below(20)), {}, input.below(2) == 0};
        for (std::uint32_t& word : sum.in) word = static_cast<std::uint32_t>(input.byte()) << 24 | 0x123456;
        sum.out.resize(sum.in.size());
        sums.push_back(std::move(sum));
        Sum& kept = sums.back();
        worker.submit({{{kept.integers ? ElementType::kInt32 : ElementType::kFloat32, kept.in.size(), kept.in.data(), kept.out.data()}}});
        break;
      }
      case 1:
      case 2:
        if (const auto pass = worker.next_pass(now)) {
          Answer answer{*pass, std::vector<std::uint32_t>(pass->words), std::vector<std::uint8_t>(pass->exponents)};
          worker.fill_exponents(*pass, answer.exponents.data(), false);
          worker.fill_words(*pass, answer.words.data(), numerics::Store::kWrite);
          answers.push_back(std::move(answer));
        }
        break;
      case 3:
      case 4:
        if (!answers.empty()) worker.on_result(result_of(answers[answers.size() - 1 - input.below(static_cast<std::uint32_t>(answers.size())) % 8 % answers.size()]), now);
        break;
      case 5: {
        if (answers.empty()) break;
        Answer wrong = answers.back();
        switch (input.below(5)) {
          case 0: wrong.pass.epoch += 1 + input.byte(); break;
          case 1: wrong.pass.fingerprint ^= 1 + input.byte(); break;
          case 2: wrong.pass.slot = static_cast<std::uint16_t>(geometry.slots + input.byte()); break;
          case 3: wrong.words.resize(wrong.words.size() + 1 + input.below(3)); break;
          case 4: wrong.exponents.resize(wrong.exponents.size() + 1 + input.below(3)); break;
        }
        require(worker.on_result(result_of(wrong), now) != ResultVerdict::kAccepted);
        break;
      }
      case 6:
        worker.on_tick(now);
        break;
      case 7:
        worker.on_pending(static_cast<std::uint16_t>(input.below(6)), input.below(8), now);
        break;
    }
    require(worker.in_flight() <= geometry.slots);
    for (std::size_t left = worker.pop_completed(); left > 0; --left, ++completed) {
      const Sum& sum = sums[completed];
      if (sum.integers) require(sum.in == sum.out);
    }
  }
  // Whatever came before, the right answers still bring everything to its end.
  for (int idle = 0; idle < 3;) {
    now += 100'000;
    worker.on_tick(now);
    ++idle;
    while (const auto pass = worker.next_pass(now)) {
      Answer answer{*pass, std::vector<std::uint32_t>(pass->words), std::vector<std::uint8_t>(pass->exponents)};
      worker.fill_exponents(*pass, answer.exponents.data(), false);
      worker.fill_words(*pass, answer.words.data(), numerics::Store::kWrite);
      require(worker.on_result(result_of(answer), now) == ResultVerdict::kAccepted);
      idle = 0;
    }
  }
  completed += worker.pop_completed();
  require(worker.idle() && completed == sums.size());
  for (const Sum& sum : sums) {
    if (sum.integers) require(sum.in == sum.out);
  }
  return 0;
}
