// Groups a batch of device tasks by work and type, and queues one kernel for each group.
#include "xla_ffi/gpu/device_tasks.h"

#include <algorithm>
#include <vector>

namespace jaxina {
namespace {

using Tasks = std::span<const DeviceTask>;

// The first tasks that one kernel can do. `tasks` is sorted.
Tasks first_kind(Tasks tasks) {
  const auto other = std::find_if(tasks.begin(), tasks.end(),
                                  [&](const DeviceTask& task) { return kind_of(task) != kind_of(tasks.front()); });
  return {tasks.begin(), other};
}

// The tasks that find exponents of this type. They are consecutive, because `tasks` is sorted.
Tasks exponents_of(Tasks tasks, numerics::ElementType type) {
  const auto wanted = [&](const DeviceTask& task) { return task.work == DeviceWork::kExponents && task.type == type; };
  const auto first = std::find_if(tasks.begin(), tasks.end(), wanted);
  return {first, std::find_if_not(first, tasks.end(), wanted)};
}

template <class Run, class Convert>
std::vector<Run> runs_of(Tasks tasks, Convert convert) {
  std::vector<Run> runs;
  runs.reserve(tasks.size());
  for (const DeviceTask& task : tasks) runs.push_back(convert(task));
  return runs;
}

std::vector<cuda::ExponentRun> exponents(Tasks tasks) {
  return runs_of<cuda::ExponentRun>(
      tasks, [](const DeviceTask& t) { return cuda::ExponentRun{t.tensor, t.elements, t.exponents}; });
}

std::vector<cuda::DequantizeRun> sums(Tasks tasks) {
  return runs_of<cuda::DequantizeRun>(tasks, [](const DeviceTask& t) {
    return cuda::DequantizeRun{t.words, t.elements, t.exponents, t.tensor, t.rounding.seed};
  });
}

cuda::Format format_of(const DeviceFormat& format, const DeviceTask& task) {
  return {.type = task.type,
          .block_size = format.block_size,
          .workers = format.devices,
          .word = task.word,
          .order = task.order,
          .shift = task.word == numerics::WireWord::kInt32 ? 0 : format.narrow_shift};
}

std::vector<cuda::QuantizeRun> contributions(Tasks tasks) {
  return runs_of<cuda::QuantizeRun>(tasks, [](const DeviceTask& t) {
    return cuda::QuantizeRun{t.tensor, t.elements, t.exponents, t.words, t.rounding.seed};
  });
}

// Queues tasks of one kind. `ahead`: the exponents that the same kernel can find.
Status queue_one(cuda::Stream stream, const DeviceFormat& all, Tasks tasks, Tasks ahead) {
  using namespace cuda;
  const DeviceWork work = tasks.front().work;
  const Format format = format_of(all, tasks.front());
  switch (work) {
    case DeviceWork::kApplyFlagsClearing:
    case DeviceWork::kApplyFlags: {
      const auto runs =
          runs_of<ApplyFlagRun>(tasks, [](const DeviceTask& t) { return ApplyFlagRun{t.words, t.elements, t.tensor}; });
      return apply_non_finite_flags(stream, format, runs, work == DeviceWork::kApplyFlagsClearing);
    }
    case DeviceWork::kDecode:
    case DeviceWork::kDecodeKeeping: return dequantize(stream, format, sums(tasks), work == DeviceWork::kDecodeKeeping);
    case DeviceWork::kDivide:
    case DeviceWork::kDivideKeeping:
      return divide_and_dequantize(stream, format, sums(tasks),
                                   {all.narrow_division, tasks.front().rounding.stochastic},
                                   work == DeviceWork::kDivideKeeping);
    case DeviceWork::kFlags: {
      const auto runs =
          runs_of<FlagRun>(tasks, [](const DeviceTask& t) { return FlagRun{t.tensor, t.elements, t.words}; });
      return non_finite_flags(stream, format, runs);
    }
    case DeviceWork::kFiniteExponents: return block_exponents(stream, format, exponents(tasks), true);
    case DeviceWork::kEncode:
      return quantize_and_look_ahead(stream, format, contributions(tasks), exponents(ahead),
                                     tasks.front().rounding.stochastic);
    case DeviceWork::kEncodeAdding: return add_quantized(stream, format, contributions(tasks));
    case DeviceWork::kExponents: return block_exponents(stream, format, exponents(tasks), false);
    case DeviceWork::kClear: {
      Status status;
      for (auto task = tasks.begin(); task != tasks.end() && status.ok(); ++task) {
        status = clear(stream, {task->words, task->elements});
      }
      return status;
    }
  }
  return {};
}

}  // namespace

Status queue_tasks(cuda::Stream stream, const DeviceFormat& format, Tasks tasks) {
  std::vector<numerics::ElementType> ahead;  // types whose exponents an encoding kernel finds
  for (Tasks rest = tasks; !rest.empty();) {
    const Tasks alike = first_kind(rest);
    rest = rest.subspan(alike.size());
    const auto [work, type, word, stochastic] = kind_of(alike.front());
    const bool found = std::find(ahead.begin(), ahead.end(), type) != ahead.end();
    if (work == DeviceWork::kExponents && found) continue;
    Tasks next;
    if (work == DeviceWork::kEncode && !found) {
      next = exponents_of(rest, type);
      ahead.push_back(type);
    }
    if (Status status = queue_one(stream, format, alike, next); !status.ok()) return status;
  }
  return {};
}

}  // namespace jaxina
