// Feeds a worker results in any order: right ones, old ones, and ones with wrong numbers or payloads. The worker sums
// alone (n = 1), so the results must be what it has sent. Narrow words lie in passes as in packets or as in shared
// memory. Buffers are kept from input to input. All data that the worker reads or writes ends where a buffer ends, so
// that the address sanitizer notices an access beyond it.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "rdma_engine/sim/narrow_sum.h"
#include "rdma_engine/worker/worker.h"
#include "tests/fuzz/input.h"

using namespace jaxina;
using fuzz::require;

namespace {

constexpr std::size_t kMaxBlock = 8, kMaxBlocks = 3;
constexpr std::size_t kMaxWords = kMaxBlock * kMaxBlocks + wire::kSeedWords, kMaxExponents = 4 * kMaxBlocks;
constexpr std::size_t kMaxElements = 40;
constexpr std::size_t kOversize = 3;  // a wrong result has at most so many words or exponents too many

// An allocation. last(size) is the place of `size` values that end where it ends.
template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t capacity) : capacity_(capacity), values_(new T[capacity]) {}
  T* last(std::size_t size) { return values_.get() + capacity_ - size; }

 private:
  std::size_t capacity_;
  std::unique_ptr<T[]> values_;
};

struct Answer {
  Pass pass;
  std::size_t words, exponents;
  std::array<std::uint32_t, kMaxWords + kOversize> word_data;
  std::array<std::uint8_t, kMaxExponents + kOversize> exponent_data;
};

// A collective of one tensor, or of two: of narrow words and of integers.
struct Sum {
  Buffer<std::uint32_t> in{kMaxElements}, out{kMaxElements}, more_in{kMaxElements}, more_out{kMaxElements};
  std::size_t size = 0, more = 0;
  bool integers = false;
  std::optional<sim::NarrowSum> narrow;
  bool right() {
    if (!std::equal(more_in.last(more), more_in.last(more) + more, more_out.last(more))) return false;
    if (integers) return std::equal(in.last(size), in.last(size) + size, out.last(size));
    return !narrow || is_narrow_sum();
  }
  bool is_narrow_sum() {
    const sim::Words expected = sim::expected_narrow_sum({sim::Words(in.last(size), in.last(size) + size)}, *narrow);
    return std::equal(expected.begin(), expected.end(), out.last(size), [](std::uint32_t a, std::uint32_t b) {
      return a == b || (std::isnan(std::bit_cast<float>(a)) && std::isnan(std::bit_cast<float>(b)));
    });
  }
};

class Fuzzed {
 public:
  void run(fuzz::Input& input);

 private:
  void submit(fuzz::Input& input);
  std::optional<Answer> take_pass();
  ResultVerdict give(const Answer& answer);
  ResultVerdict give_wrong(fuzz::Input& input);
  void pop_completed();

  numerics::Store store() const {
    return packing_ == Packing::kPacked ? numerics::Store::kBigEndian : numerics::Store::kWrite;
  }

  std::optional<JobShape> shape_;
  Packing packing_ = Packing::kWhole;
  std::optional<Worker> worker_;
  Nanoseconds now_ = 0;
  std::vector<std::unique_ptr<Sum>> sums_;  // the first `submitted_` are in use
  std::size_t submitted_ = 0, completed_ = 0;
  std::vector<Answer> answers_;
  Buffer<std::uint32_t> words_{kMaxWords + kOversize};
  Buffer<std::uint8_t> exponents_{kMaxExponents + kOversize};
};

// A number of any size, or an infinity or NaN.
std::uint32_t draw_float(fuzz::Input& input) {
  const std::uint8_t byte = input.byte();
  if ((byte & 0x7f) == 0x7f) return byte == 0x7f ? 0x7f800000 : 0xff800000;
  if (byte == 0x7e) return 0x7fc00000;
  return static_cast<std::uint32_t>(byte) << 24 | 0x123456;
}

void Fuzzed::submit(fuzz::Input& input) {
  if (submitted_ == sums_.size()) sums_.push_back(std::make_unique<Sum>());
  Sum& sum = *sums_[submitted_++];
  sum.size = input.below(kMaxElements + 1);
  const std::uint8_t kind = input.byte();
  sum.integers = kind % 2 == 0;
  sum.narrow.reset();
  sum.more = 0;
  std::uint32_t* in = sum.in.last(sum.size);
  for (std::size_t i = 0; i < sum.size; ++i) in[i] = draw_float(input);
  std::fill_n(sum.out.last(sum.size), sum.size, 0);
  Tensor tensor{sum.integers ? ElementType::kInt32 : ElementType::kFloat32, sum.size, in, sum.out.last(sum.size)};
  Collective collective;
  if (!sum.integers && shape_->may_be_narrow() && kind % 4 == 1) {
    tensor.word = kind % 8 == 1 ? numerics::WireWord::kInt8 : numerics::WireWord::kInt16;
    sum.narrow = sim::NarrowSum{.bits = numerics::bits_of(tensor.word), .block_size = shape_->block_size()};
    if (kind >= 0x80) collective.rounding = {true, input.byte()};
    if (kind >= 0x80) sum.narrow->seed = collective.rounding.seed;
    sum.more = kind % 16 < 8 ? 0 : input.below(kMaxElements + 1);
    for (std::size_t i = 0; i < sum.more; ++i) sum.more_in.last(sum.more)[i] = input.byte();
    std::fill_n(sum.more_out.last(sum.more), sum.more, 0);
    // Narrow words come first, whatever the order of the tensors.
    collective.tensors.push_back(
        {ElementType::kInt32, sum.more, sum.more_in.last(sum.more), sum.more_out.last(sum.more)});
  }
  collective.tensors.push_back(tensor);
  worker_->submit(collective);
}

std::optional<Answer> Fuzzed::take_pass() {
  const std::optional<Pass> pass = worker_->next_pass(now_);
  if (!pass) return std::nullopt;
  require(shape_->admits(pass->format, pass->words, pass->exponents));
  require(packing_ == Packing::kPacked || pass->format == wire::Format::kInt32);
  Answer answer{*pass, pass->words, pass->exponents, {}, {}};
  worker_->fill_exponents(*pass, exponents_.last(answer.exponents), false);
  worker_->fill_words(*pass, words_.last(answer.words), store());
  std::copy_n(words_.last(answer.words), answer.words, answer.word_data.begin());
  std::copy_n(exponents_.last(answer.exponents), answer.exponents, answer.exponent_data.begin());
  return answer;
}

ResultVerdict Fuzzed::give(const Answer& answer) {
  std::copy_n(answer.word_data.begin(), answer.words, words_.last(answer.words));
  std::copy_n(answer.exponent_data.begin(), answer.exponents, exponents_.last(answer.exponents));
  return worker_->on_result(
      {answer.pass.slot, answer.pass.epoch, answer.pass.fingerprint, answer.words, answer.exponents,
       words_.last(answer.words), exponents_.last(answer.exponents),
       packing_ == Packing::kPacked ? numerics::Order::kBigEndian : numerics::Order::kHost, answer.pass.format},
      now_);
}

ResultVerdict Fuzzed::give_wrong(fuzz::Input& input) {
  Answer wrong = answers_.back();
  switch (input.below(6)) {
    case 0: wrong.pass.epoch += 1 + input.byte(); break;
    case 1: wrong.pass.fingerprint ^= 1 + input.byte(); break;
    case 2: wrong.pass.slot = static_cast<std::uint16_t>(shape_->slots() + input.byte()); break;
    case 3: wrong.words += 1 + input.below(kOversize); break;
    case 4: wrong.exponents += 1 + input.below(kOversize); break;
    case 5:
      wrong.pass.format =
          static_cast<wire::Format>((static_cast<std::uint32_t>(wrong.pass.format) + 1 + input.below(3)) % 4);
      break;
  }
  return give(wrong);
}

void Fuzzed::pop_completed() {
  for (std::size_t left = worker_->pop_completed(); left > 0; --left) require(sums_[completed_++]->right());
}

void Fuzzed::run(fuzz::Input& input) {
  shape_.emplace(ShapeRequest{.devices = 1,
                              .workers = 1,
                              .slots = 1 + input.below(4),
                              .block_size = 1 + input.below(kMaxBlock),
                              .blocks_per_chunk = 1 + input.below(kMaxBlocks),
                              .widest_element = 1});
  packing_ = input.below(2) == 0 ? Packing::kWhole : Packing::kPacked;
  worker_.emplace(
      WorkerConfig{.shape = *shape_, .timer = {.initial = 100, .minimum = 10, .maximum = 1000}, .packing = packing_});
  now_ = 0;
  submitted_ = completed_ = 0;
  answers_.clear();
  while (!input.empty()) {
    now_ += input.below(64);
    switch (input.below(8)) {
      case 0: submit(input); break;
      case 1:
      case 2:
        if (const auto answer = take_pass()) answers_.push_back(*answer);
        break;
      case 3:
      case 4:
        if (!answers_.empty())
          give(answers_[answers_.size() - 1 - input.byte() % std::min<std::size_t>(answers_.size(), 8)]);
        break;
      case 5:
        if (!answers_.empty()) require(give_wrong(input) != ResultVerdict::kAccepted);
        break;
      case 6: worker_->on_tick(now_); break;
      case 7: worker_->on_pending(static_cast<std::uint16_t>(input.below(6)), input.below(8), now_); break;
    }
    require(worker_->in_flight() <= shape_->slots());
    pop_completed();
  }
  // Whatever came before, the right answers must complete everything now.
  for (int idle = 0; idle < 3;) {
    now_ += 100'000;
    worker_->on_tick(now_);
    ++idle;
    while (const auto answer = take_pass()) {
      require(give(*answer) == ResultVerdict::kAccepted);
      idle = 0;
    }
  }
  pop_completed();
  require(worker_->idle() && completed_ == submitted_);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Fuzzed fuzzed;
  fuzz::Input input(data, size);
  fuzzed.run(input);
  return 0;
}
