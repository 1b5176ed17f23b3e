// The bodies of the kernels: plain functions that do the work of one thread. The kernels call them on the GPU. A test
// calls them on the CPU, for every thread of a grid. `Memory` loads and stores elements and vectors (device_memory.h on
// the GPU).
//
// Every element is read once and every word is written once. Within a block, lane l takes vectors l, l + lanes, and so
// on. A thread loads two vectors before it stores the first, to keep the memory busy. Elements that do not fill a
// vector are moved one by one.
#pragma once

#include <cstdint>

#include "cuda_kernels/jobs.h"
#include "rdma_engine/numerics/element_forms.h"

#if defined(__CUDA_ARCH__)
#define JAXINA_UNROLL _Pragma("unroll")
#else
#define JAXINA_UNROLL
#endif

namespace jaxina::cuda {

template <class T, std::uint32_t n>
struct alignas(sizeof(T) * n) Packed {
  T values[n];
};

// Calls load(i, v) and later use(i, v) for each of this lane's vectors v in [0, count). in_flight loads are under way
// at a time, and i numbers them. prepare() is called after the first loads, so its own wait for memory overlaps with
// them.
template <std::uint32_t in_flight, class Load, class Prepare, class Use>
JAXINA_HOST_DEVICE void for_each_vector(std::uint32_t count, std::uint32_t lane, std::uint32_t lanes, Load load,
                                        Prepare prepare, Use use) {
  const auto load_from = [&](std::uint32_t first) {
    JAXINA_UNROLL
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      if (first + i * lanes < count) load(i, first + i * lanes);
    }
  };
  load_from(lane);
  prepare();
  for (std::uint32_t first = lane; first < count;) {
    JAXINA_UNROLL
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      if (first + i * lanes < count) use(i, first + i * lanes);
    }
    first += in_flight * lanes;
    load_from(first);
  }
}

// Swaps the word's bytes if `swap` is set.
template <class Word>
JAXINA_HOST_DEVICE Word in_order(Word word, bool swap) {
  if constexpr (sizeof(Word) == 1) return word;
  const std::uint32_t turned = numerics::ScalarVector::swap_bytes(word) >> (32 - 8 * sizeof(Word));
  return swap ? static_cast<Word>(turned) : word;
}

// Sign-extends a word to 32 bits, as the arithmetic takes it.
JAXINA_HOST_DEVICE inline std::uint32_t extended(std::uint32_t word) { return word; }
JAXINA_HOST_DEVICE inline std::uint32_t extended(std::uint16_t word) {
  return static_cast<std::uint32_t>(static_cast<std::int16_t>(word));
}
JAXINA_HOST_DEVICE inline std::uint32_t extended(std::uint8_t word) {
  return static_cast<std::uint32_t>(static_cast<std::int8_t>(word));
}

// ---- exponents

// Returns the largest magnitude among the elements of the block that this lane takes.
template <class Form, std::uint32_t in_flight, class Memory>
JAXINA_HOST_DEVICE std::uint32_t lane_maximum(const ExponentJob& job, Lane lane, Memory memory) {
  using Element = typename Form::Element;
  constexpr std::uint32_t kSize = exponent_vector_size(sizeof(Element));
  const auto block = place(job.runs, job.shape, lane.group);
  const auto* x = static_cast<const Element*>(block.run->x) + block.first_element;
  const auto magnitude = [&](Element element) {
    return job.finite_only ? Form::finite_magnitude(element) : Form::magnitude(element);
  };
  std::uint32_t largest = 0;
  const auto include = [&](Element element) {
    const std::uint32_t candidate = magnitude(element);
    largest = candidate > largest ? candidate : largest;
  };
  const std::uint32_t vectors = block.wide ? block.elements / kSize : 0;
  Packed<Element, kSize> loaded[in_flight];
  for_each_vector<in_flight>(
      vectors, lane.index, job.lanes(),
      [&](std::uint32_t i, std::uint32_t v) { loaded[i] = memory.template load<kSize>(x + std::uint64_t{v} * kSize); },
      [] {},
      [&](std::uint32_t i, std::uint32_t) {
        for (const Element& element : loaded[i].values) include(element);
      });
  for (std::uint32_t i = vectors * kSize + lane.index; i < block.elements; i += job.lanes()) {
    include(memory.template load<1>(x + i).values[0]);
  }
  return largest;
}

// Finding an exponent has two steps, between which the group's threads exchange their maxima. begin_exponent() returns
// this thread's maximum. end_exponent() takes the group's, and lane 0 stores the block's exponent.
template <class Form, std::uint32_t in_flight, class Memory>
JAXINA_HOST_DEVICE std::uint32_t begin_exponent(const ExponentJob& job, Lane lane, Memory memory) {
  return lane.group < job.runs.blocks() ? lane_maximum<Form, in_flight>(job, lane, memory) : 0;
}

template <class Form, class Memory>
JAXINA_HOST_DEVICE void end_exponent(const ExponentJob& job, Lane lane, std::uint32_t largest, Memory memory) {
  if (lane.index != 0 || lane.group >= job.runs.blocks()) return;
  const auto block = place(job.runs, job.shape, lane.group);
  memory.template store<1>(block.run->exponents + block.block, {{Form::exponent(largest)}});
}

// ---- values to words

template <class Form, class Memory>
JAXINA_HOST_DEVICE std::uint8_t exponent_at(const std::uint8_t* exponents, std::uint64_t block, Memory memory) {
  if constexpr (Form::kIsFloat) {
    return memory.template load<1>(exponents + block).values[0];
  } else {
    return 0;
  }
}

// Encodes one element, rounding to nearest unless `stochastic`. `index`: the element's place in its block, whose first
// element takes the random number of (seed, 0).
template <class Form, bool stochastic>
JAXINA_HOST_DEVICE void encode_element(typename Form::Element x, typename Form::EncodeScale scale, std::uint64_t seed,
                                       std::uint32_t index, std::uint32_t* words) {
  if constexpr (stochastic) {
    Form::encode_at_random(x, scale, numerics::random_word(seed, index), words);
  } else {
    Form::encode(x, scale, words);
  }
}

// So many words, and those that fill up the last 32 bits.
template <class Word>
JAXINA_HOST_DEVICE constexpr std::uint32_t filled_up(std::uint32_t words) {
  constexpr std::uint32_t kTogether = 32 / (8 * sizeof(Word));
  return (words + kTogether - 1) / kTogether * kTogether;
}

// With `adds`, adds to the words that are there; then they have 32 bits each, in the host's order.
template <class Form, class Word, bool stochastic, bool adds = false, class Memory>
JAXINA_HOST_DEVICE void encode_block(const EncodeJob& job, Lane lane, Memory memory) {
  if (lane.group >= job.runs.blocks()) return;
  using Element = typename Form::Element;
  constexpr std::uint32_t kSize = vector_size(sizeof(Element), Form::kWords, sizeof(Word));
  const auto block = place(job.runs, job.shape, lane.group);
  const auto* x = static_cast<const Element*>(block.run->x) + block.first_element;
  auto* words = static_cast<Word*>(block.run->words) + block.first_word;
  const std::uint8_t exponent = exponent_at<Form>(block.run->exponents, block.block, memory);
  typename Form::EncodeScale scale;
  const auto prepare = [&] { scale = Form::encode_scale(exponent, job.scale); };
  const std::uint64_t seed = numerics::seed_from(block.run->seed, block.first_element);

  std::uint32_t vectors = 0;
  if constexpr (kSize > 1) {
    vectors = block.wide ? block.elements / kSize : 0;
    Packed<Element, kSize> loaded[kInFlight];
    Packed<Word, kSize> before[kInFlight];
    for_each_vector<kInFlight>(
        vectors, lane.index, job.lanes(),
        [&](std::uint32_t i, std::uint32_t v) {
          loaded[i] = memory.template load<kSize>(x + std::uint64_t{v} * kSize);
          if constexpr (adds) before[i] = memory.template load<kSize>(words + std::uint64_t{v} * kSize);
        },
        prepare,
        [&](std::uint32_t i, std::uint32_t v) {
          Packed<Word, kSize> out;
          JAXINA_UNROLL
          for (std::uint32_t e = 0; e < kSize; ++e) {
            std::uint32_t word;
            encode_element<Form, stochastic>(loaded[i].values[e], scale, seed, v * kSize + e, &word);
            out.values[e] = in_order(static_cast<Word>(word), job.swap);
            if constexpr (adds) out.values[e] += before[i].values[e];
          }
          memory.template store<kSize>(words + std::uint64_t{v} * kSize, out);
        });
  } else {
    prepare();
  }
  for (std::uint32_t i = vectors * kSize + lane.index; i < block.elements; i += job.lanes()) {
    std::uint32_t encoded[Form::kWords];
    encode_element<Form, stochastic>(memory.template load<1>(x + i).values[0], scale, seed, i, encoded);
    for (std::uint32_t w = 0; w < Form::kWords; ++w) {
      Word* const place = words + std::uint64_t{i} * Form::kWords + w;
      Word word = in_order(static_cast<Word>(encoded[w]), job.swap);
      if constexpr (adds) word += memory.template load<1>(place).values[0];
      memory.template store<1>(place, {{word}});
    }
  }
  if constexpr (adds) return;  // what lies between blocks was set to 0 by whoever wrote first
  const std::uint32_t written = block.elements * Form::kWords;
  const std::uint32_t end = block.last ? filled_up<Word>(written) : job.shape.words;
  for (std::uint32_t w = written + lane.index; w < end; w += job.lanes()) {
    memory.template store<1>(words + w, {{Word{0}}});
  }
}

// ---- words to values. If old values may be kept, elements are moved one by one: plan() then marks no run as wide.

// A sum of narrow words, divided so that it is a narrow word again. Its random number is that of (seed, index).
JAXINA_HOST_DEVICE inline std::uint32_t divided(std::uint32_t sum, Division division, std::uint64_t seed,
                                                std::uint32_t index) {
  if (division.bits == 0) return sum;
  if (!division.stochastic) return numerics::shifted<numerics::ScalarVector>(sum, division.bits);
  return numerics::shifted_at_random(sum, division.bits, numerics::random_word(seed, index));
}

template <class Form, class Word, bool divides, class Memory>
JAXINA_HOST_DEVICE void decode_block(const DecodeJob& job, Lane lane, Memory memory) {
  if (lane.group >= job.runs.blocks()) return;
  using Element = typename Form::Element;
  constexpr std::uint32_t kSize = vector_size(sizeof(Element), Form::kWords, sizeof(Word));
  const auto block = place(job.runs, job.shape, lane.group);
  const auto* words = static_cast<const Word*>(block.run->words) + block.first_word;
  auto* y = static_cast<Element*>(block.run->y) + block.first_element;
  const std::uint8_t exponent = exponent_at<Form>(block.run->exponents, block.block, memory);
  typename Form::DecodeScale scale;
  const auto prepare = [&] { scale = Form::decode_scale(exponent, job.scale); };
  const std::uint64_t seed = numerics::seed_from(block.run->seed, block.first_element);
  // Word i of the block, as the arithmetic takes it.
  const auto taken_from = [&](Word word, std::uint32_t i) {
    const std::uint32_t sum = extended(in_order(word, job.swap));
    if constexpr (divides) return divided(sum, job.division, seed, i);
    else return sum;
  };

  std::uint32_t vectors = 0;
  if constexpr (kSize > 1) {
    vectors = block.wide ? block.elements / kSize : 0;
    Packed<Word, kSize> loaded[kInFlight];
    for_each_vector<kInFlight>(
        vectors, lane.index, job.lanes(),
        [&](std::uint32_t i, std::uint32_t v) {
          loaded[i] = memory.template load<kSize>(words + std::uint64_t{v} * kSize);
        },
        prepare,
        [&](std::uint32_t i, std::uint32_t v) {
          Packed<Element, kSize> out;
          JAXINA_UNROLL
          for (std::uint32_t e = 0; e < kSize; ++e) {
            const std::uint32_t word = taken_from(loaded[i].values[e], v * kSize + e);
            out.values[e] = Form::decode(&word, scale, false, Element{});
          }
          memory.template store<kSize>(y + std::uint64_t{v} * kSize, out);
        });
  } else {
    prepare();
  }
  for (std::uint32_t i = vectors * kSize + lane.index; i < block.elements; i += job.lanes()) {
    std::uint32_t taken[Form::kWords];
    for (std::uint32_t w = 0; w < Form::kWords; ++w) {
      taken[w] = taken_from(memory.template load<1>(words + std::uint64_t{i} * Form::kWords + w).values[0], i);
    }
    const Element before = job.keep ? memory.template load<1>(y + i).values[0] : Element{};
    memory.template store<1>(y + i, {{Form::decode(taken, scale, job.keep, before)}});
  }
}

// ---- flags of non-finite values

// A form whose words are flags, so that encode_block() and decode_block() serve for flags, too.
template <class Form>
struct FlagForm {
  using Element = typename Form::Element;
  using EncodeScale = numerics::NoScale;
  using DecodeScale = numerics::NoScale;
  static constexpr std::uint32_t kWords = Form::kWords;
  static constexpr bool kIsFloat = false;  // flags have no exponents

  JAXINA_HOST_DEVICE static EncodeScale encode_scale(std::uint8_t, numerics::Scale) { return {}; }
  JAXINA_HOST_DEVICE static DecodeScale decode_scale(std::uint8_t, numerics::Scale) { return {}; }
  JAXINA_HOST_DEVICE static void encode(Element x, EncodeScale, std::uint32_t* words) {
    words[0] = Form::flag(x);
    for (std::uint32_t w = 1; w < kWords; ++w) words[w] = 0;
  }
  JAXINA_HOST_DEVICE static Element decode(const std::uint32_t* words, DecodeScale, bool keep, Element old) {
    return Form::flagged(words[0], !keep, old);
  }
};

// ---- packed flags, beside narrow words. They are rare, so nothing is done about their speed.

// Each lane takes words of a block and the elements whose flags these hold.
template <class Form, class Memory>
JAXINA_HOST_DEVICE void encode_packed_flags(const EncodeJob& job, Lane lane, Memory memory) {
  if (lane.group >= job.runs.blocks()) return;
  using numerics::kFlagsPerWord;
  const auto block = place(job.runs, job.shape, lane.group);
  const auto* x = static_cast<const typename Form::Element*>(block.run->x) + block.first_element;
  auto* words = static_cast<std::uint32_t*>(block.run->words) + block.first_word;
  for (std::uint32_t w = lane.index; w < job.shape.words; w += job.lanes()) {
    std::uint32_t flags = 0;
    for (std::uint32_t e = 0; e < kFlagsPerWord && w * kFlagsPerWord + e < block.elements; ++e) {
      const auto element = memory.template load<1>(x + w * kFlagsPerWord + e).values[0];
      flags |= numerics::packed_flag(Form::flag(element)) << (2 * e);
    }
    memory.template store<1>(words + w, {{in_order(flags, job.swap)}});
  }
}

template <class Form, class Memory>
JAXINA_HOST_DEVICE void decode_packed_flags(const DecodeJob& job, Lane lane, Memory memory) {
  if (lane.group >= job.runs.blocks()) return;
  using numerics::kFlagsPerWord;
  const auto block = place(job.runs, job.shape, lane.group);
  const auto* words = static_cast<const std::uint32_t*>(block.run->words) + block.first_word;
  auto* y = static_cast<typename Form::Element*>(block.run->y) + block.first_element;
  for (std::uint32_t i = lane.index; i < block.elements; i += job.lanes()) {
    const std::uint32_t flags = in_order(memory.template load<1>(words + i / kFlagsPerWord).values[0], job.swap);
    const std::uint32_t flag = numerics::unpacked_flag(flags >> (2 * (i % kFlagsPerWord)));
    const auto before = memory.template load<1>(y + i).values[0];
    memory.template store<1>(y + i, {{Form::flagged(flag, !job.keep, before)}});
  }
}

}  // namespace jaxina::cuda
