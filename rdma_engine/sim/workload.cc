#include "rdma_engine/sim/workload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace jaxina::sim {
namespace {

constexpr std::uint32_t kGuard = 0xdecafbad;

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The sum over all workers of the values at one position of a block, given the block's scale.
std::uint32_t sum_of(const std::vector<Words>& inputs, std::size_t i, int scale, double limit) {
  std::int64_t sum = 0;
  bool nan = false, plus = false, minus = false;
  for (const Words& input : inputs) {
    const float x = as_float(input[i]);
    if (std::isnan(x)) nan = true;
    else if (std::isinf(x)) (x > 0 ? plus : minus) = true;
    else sum += static_cast<std::int64_t>(std::clamp(std::nearbyint(std::ldexp(double{x}, scale)), -limit, limit));
  }
  const float infinity = std::numeric_limits<float>::infinity();
  if (nan || (plus && minus)) return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
  if (plus || minus) return std::bit_cast<std::uint32_t>(plus ? infinity : -infinity);
  return std::bit_cast<std::uint32_t>(std::ldexp(static_cast<float>(sum), -scale));
}

std::uint32_t draw_float(Random& random, int exponent, bool non_finite) {
  const std::uint64_t bits = random.next();
  if (non_finite && bits % 8 == 0) {
    constexpr std::uint32_t kinds[] = {0x7f800000, 0xff800000, 0x7fc00000};
    return kinds[(bits >> 8) % 3];
  }
  if (bits % 16 == 1) return 0;
  const int biased = std::clamp(exponent - static_cast<int>((bits >> 8) % 12), 0, 254);
  return static_cast<std::uint32_t>(bits >> 32 & 0x807fffff) | static_cast<std::uint32_t>(biased) << 23;
}

Words draw_tensor(ElementType type, std::size_t count, bool non_finite, Random& random) {
  Words words(count);
  int exponent = static_cast<int>(random.range(0, 254));
  for (std::uint32_t& word : words) {
    if (random.one_in(8)) exponent = static_cast<int>(random.range(0, 254));
    word = type == ElementType::kFloat32 ? draw_float(random, exponent, non_finite)
                                         : static_cast<std::uint32_t>(random.next());
  }
  return words;
}

}  // namespace

Words expected_sum(ElementType type, const std::vector<Words>& inputs, std::size_t block_size) {
  const std::size_t count = inputs[0].size();
  Words result(count);
  if (type != ElementType::kFloat32) {
    for (const Words& input : inputs) {
      for (std::size_t i = 0; i < count; ++i) result[i] += input[i];
    }
    return result;
  }
  int log2_workers = 0;
  while ((std::size_t{1} << log2_workers) < inputs.size()) ++log2_workers;
  const double limit = std::floor(2147483647.0 / static_cast<double>(inputs.size()));
  for (std::size_t begin = 0; begin < count; begin += block_size) {
    const std::size_t end = std::min(count, begin + block_size);
    float largest = 0;
    for (const Words& input : inputs) {
      for (std::size_t i = begin; i < end; ++i) {
        if (std::isfinite(as_float(input[i]))) largest = std::max(largest, std::fabs(as_float(input[i])));
      }
    }
    int exponent = -126;
    if (largest > 0) std::frexp(largest, &exponent);
    const int scale = 31 - log2_workers - std::clamp(exponent, -126, 128);
    for (std::size_t i = begin; i < end; ++i) result[i] = sum_of(inputs, i, scale, limit);
  }
  return result;
}

bool equal_bits(ElementType type, std::uint32_t a, std::uint32_t b) {
  return a == b || (type == ElementType::kFloat32 && std::isnan(as_float(a)) && std::isnan(as_float(b)));
}

Workload::Workload(const JobPlan& plan, Random& random) {
  const std::size_t chunk = plan.shape.words_per_chunk();
  collectives_.resize(plan.collectives);
  for (WorkCollective& collective : collectives_) {
    std::vector<WorkTensor>& tensors = collective.tensors;
    const auto size = random.below(4);
    tensors.resize(plan.steady ? 1 : size);
    // Some collectives use each slot several times, others fit one chunk.
    const std::size_t most = random.one_in(2) ? chunk : plan.longest;
    for (WorkTensor& tensor : tensors) {
      tensor.type = random.one_in(3) ? ElementType::kInt32 : ElementType::kFloat32;
      tensor.count = random.one_in(10) ? 0 : static_cast<std::size_t>(random.range(1, static_cast<std::int64_t>(most)));
      tensor.in_place = random.one_in(2);
      bool non_finite = random.one_in(4);
      if (plan.steady) {
        tensor.type = ElementType::kFloat32;
        tensor.count = plan.longest;
        non_finite = false;
      }
      for (std::uint32_t w = 0; w < plan.shape.workers(); ++w) {
        tensor.in.push_back(draw_tensor(tensor.type, tensor.count, non_finite, random));
        tensor.out.emplace_back(tensor.count + 2, kGuard);
        if (tensor.in_place) std::copy(tensor.in[w].begin(), tensor.in[w].end(), tensor.out[w].begin() + 1);
      }
    }
    if (plan.narrow) draw_narrow(collective, random);
    expect(collective, plan.shape);
  }
}

// Some tensors of a collective are narrow, all with the same word.
void Workload::draw_narrow(WorkCollective& collective, Random& random) {
  const auto word = random.one_in(2) ? numerics::WireWord::kInt16 : numerics::WireWord::kInt8;
  collective.rounding = {random.one_in(2), random.next()};
  for (WorkTensor& tensor : collective.tensors) {
    if (tensor.type == ElementType::kFloat32 && !random.one_in(3)) tensor.word = word;
  }
}

void Workload::expect(WorkCollective& collective, const JobShape& shape) {
  NarrowSum form{.block_size = shape.block_size()};
  if (collective.rounding.stochastic) form.seed = collective.rounding.seed;
  for (WorkTensor& tensor : collective.tensors) {
    if (tensor.word == numerics::WireWord::kInt32) {
      tensor.expected = expected_sum(tensor.type, tensor.in, shape.block_size());
      continue;
    }
    form.bits = numerics::bits_of(tensor.word);
    tensor.expected = expected_narrow_sum(tensor.in, form);
    form.first_block += (tensor.count + shape.block_size() - 1) / shape.block_size();
  }
}

Collective Workload::collective(std::size_t index, std::uint32_t worker) {
  Collective result{.tensors = {}, .rounding = collectives_[index].rounding};
  for (WorkTensor& tensor : collectives_[index].tensors) {
    std::uint32_t* out = tensor.out[worker].data() + 1;
    result.tensors.push_back({.type = tensor.type,
                              .count = tensor.count,
                              .in = tensor.in_place ? out : tensor.in[worker].data(),
                              .out = out,
                              .word = tensor.word});
  }
  return result;
}

bool Workload::is_exact(std::size_t index, std::uint32_t worker) const {
  for (const WorkTensor& tensor : collectives_[index].tensors) {
    const Words& out = tensor.out[worker];
    if (out.front() != kGuard || out.back() != kGuard) return false;
    for (std::size_t i = 0; i < tensor.count; ++i) {
      if (!equal_bits(tensor.type, tensor.expected[i], out[i + 1])) return false;
    }
  }
  return true;
}

}  // namespace jaxina::sim
