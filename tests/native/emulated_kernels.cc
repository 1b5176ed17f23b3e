// Emulates the GPU's kernels on the calling thread, for tests of the code that calls them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda_kernels/forms.h"
#include "cuda_kernels/kernel_bodies.h"
#include "cuda_kernels/plan.h"

namespace jaxina::cuda {
namespace {

struct HostMemory {
  template <std::uint32_t n, class T>
  Packed<T, n> load(const T* from) const {
    Packed<T, n> value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  template <std::uint32_t n, class T>
  void store(T* to, Packed<T, n> value) const {
    std::memcpy(to, &value, sizeof(value));
  }
};

template <class Job, class Body>
void for_each_thread(const Job& job, Body body) {
  const std::uint64_t threads = std::uint64_t{thread_blocks(job.runs.blocks(), job.log2_lanes)} * kThreads;
  for (std::uint64_t thread = 0; thread < threads; ++thread) body(lane_of(thread, job.log2_lanes));
}

// Does the same as in_batches() in launch.h.
template <class Run, class Queue>
Status in_batches(std::span<const Run> runs, Queue queue) {
  for (std::size_t first = 0; first < runs.size(); first += kMaxRuns) {
    const Status status = queue(runs.subspan(first, std::min(kMaxRuns, runs.size() - first)));
    if (!status.ok()) return status;
  }
  return {};
}

template <class Form, class Word, bool stochastic = false, bool adds = false>
void encode(const EncodeJob& job) {
  for_each_thread(job, [&](Lane lane) { encode_block<Form, Word, stochastic, adds>(job, lane, HostMemory{}); });
}

template <class Form, class Word, bool divides = false>
void decode(const DecodeJob& job) {
  for_each_thread(job, [&](Lane lane) { decode_block<Form, Word, divides>(job, lane, HostMemory{}); });
}

}  // namespace

Status block_exponents(Stream, const Format& format, std::span<const ExponentRun> runs, bool finite_only) {
  return in_batches(runs, [&](std::span<const ExponentRun> batch) -> Status {
    ExponentJob job;
    if (Status status = plan(format, batch, finite_only, job); !status.ok()) return status;
    return with_float_form(format.type, [&](auto form) -> Status {
      using Form = typename decltype(form)::type;
      // First finds every group's largest value. On the GPU the threads of a warp exchange theirs.
      std::vector<std::uint32_t> largest(job.runs.blocks() + kThreads);
      for_each_thread(job, [&](Lane lane) {
        const std::uint32_t value =
            begin_exponent<Form, exponents_in_flight(sizeof(typename Form::Element))>(job, lane, HostMemory{});
        if (lane.group < largest.size()) largest[lane.group] = std::max(largest[lane.group], value);
      });
      for_each_thread(job, [&](Lane lane) {
        if (lane.group < largest.size()) end_exponent<Form>(job, lane, largest[lane.group], HostMemory{});
      });
      return {};
    });
  });
}

Status quantize(Stream, const Format& format, std::span<const QuantizeRun> runs, bool stochastic) {
  return in_batches(runs, [&](std::span<const QuantizeRun> batch) -> Status {
    EncodeJob job;
    if (Status status = plan(format, batch, stochastic, job); !status.ok()) return status;
    return with_encoding(format, stochastic, [&](auto form, auto word, auto at_random) -> Status {
      encode<typename decltype(form)::type, typename decltype(word)::type, at_random.value>(job);
      return {};
    });
  });
}

Status add_quantized(Stream, const Format& format, std::span<const QuantizeRun> runs) {
  return in_batches(runs, [&](std::span<const QuantizeRun> batch) -> Status {
    EncodeJob job;
    if (Status status = plan_adding(format, batch, job); !status.ok()) return status;
    return with_form(format.type, [&](auto form) -> Status {
      encode<typename decltype(form)::type, std::uint32_t, false, true>(job);
      return {};
    });
  });
}

Status quantize_and_look_ahead(Stream stream, const Format& format, std::span<const QuantizeRun> now,
                               std::span<const ExponentRun> next, bool stochastic) {
  // In the reverse order, because no caller may rely on the order.
  Status status = block_exponents(stream, format, next, false);
  return status.ok() ? quantize(stream, format, now, stochastic) : status;
}

Status dequantize(Stream, const Format& format, std::span<const DequantizeRun> runs, bool keep_non_finite) {
  return in_batches(runs, [&](std::span<const DequantizeRun> batch) -> Status {
    DecodeJob job;
    if (Status status = plan(format, batch, keep_non_finite, job); !status.ok()) return status;
    return with_form_and_word(format, [&](auto form, auto word) -> Status {
      decode<typename decltype(form)::type, typename decltype(word)::type>(job);
      return {};
    });
  });
}

Status divide_and_dequantize(Stream, const Format& format, std::span<const DequantizeRun> runs, Division division,
                             bool keep_non_finite) {
  return in_batches(runs, [&](std::span<const DequantizeRun> batch) -> Status {
    DecodeJob job;
    if (Status status = plan(format, batch, division, keep_non_finite, job); !status.ok()) return status;
    return with_narrow_form(format.type, [&](auto form) -> Status {
      decode<typename decltype(form)::type, std::uint32_t, true>(job);
      return {};
    });
  });
}

Status non_finite_flags(Stream, const Format& format, std::span<const FlagRun> runs) {
  return in_batches(runs, [&](std::span<const FlagRun> batch) -> Status {
    EncodeJob job;
    if (Status status = plan(format, batch, job); !status.ok()) return status;
    if (format.word != numerics::WireWord::kInt32) {
      return with_narrow_form(format.type, [&](auto form) -> Status {
        using Form = typename decltype(form)::type;
        for_each_thread(job, [&](Lane lane) { encode_packed_flags<Form>(job, lane, HostMemory{}); });
        return {};
      });
    }
    return with_float_form(format.type, [&](auto form) -> Status {
      encode<FlagForm<typename decltype(form)::type>, std::uint32_t>(job);
      return {};
    });
  });
}

Status clear(Stream, std::span<std::uint32_t> words) {
  std::fill(words.begin(), words.end(), 0u);
  return {};
}

Status apply_non_finite_flags(Stream, const Format& format, std::span<const ApplyFlagRun> runs, bool clear) {
  return in_batches(runs, [&](std::span<const ApplyFlagRun> batch) -> Status {
    DecodeJob job;
    if (Status status = plan(format, batch, clear, job); !status.ok()) return status;
    if (format.word != numerics::WireWord::kInt32) {
      return with_narrow_form(format.type, [&](auto form) -> Status {
        using Form = typename decltype(form)::type;
        for_each_thread(job, [&](Lane lane) { decode_packed_flags<Form>(job, lane, HostMemory{}); });
        return {};
      });
    }
    return with_float_form(format.type, [&](auto form) -> Status {
      decode<FlagForm<typename decltype(form)::type>, std::uint32_t>(job);
      return {};
    });
  });
}

}  // namespace jaxina::cuda
