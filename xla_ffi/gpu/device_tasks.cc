// Groups a batch of device tasks by work and type, and queues one kernel for each group.
#include "xla_ffi/gpu/device_tasks.h"

#include <algorithm>
#include <vector>

namespace jaxina {
namespace {

using Tasks = std::span<const DeviceTask>;

// Returns the tasks of this work and type. They are consecutive, because `tasks` is sorted.
Tasks select(Tasks tasks, DeviceWork work, numerics::ElementType type) {
  const auto before = [](const DeviceTask& task, std::pair<DeviceWork, numerics::ElementType> key) {
    return std::pair(task.work, task.type) < key;
  };
  const auto first = std::lower_bound(tasks.begin(), tasks.end(), std::pair(work, type), before);
  const auto last =
      std::find_if(first, tasks.end(), [&](const DeviceTask& t) { return t.work != work || t.type != type; });
  return {first, last};
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

// Queues all tasks of one kind of work on tensors of one type.
Status queue_one(cuda::Stream stream, const cuda::Format& format, DeviceWork work, Tasks tasks) {
  using namespace cuda;
  switch (work) {
    case DeviceWork::kApplyFlagsClearing:
    case DeviceWork::kApplyFlags: {
      const auto runs =
          runs_of<ApplyFlagRun>(tasks, [](const DeviceTask& t) { return ApplyFlagRun{t.words, t.elements, t.tensor}; });
      return apply_non_finite_flags(stream, format, runs, work == DeviceWork::kApplyFlagsClearing);
    }
    case DeviceWork::kDecode:
    case DeviceWork::kDecodeKeeping: {
      const auto runs = runs_of<DequantizeRun>(
          tasks, [](const DeviceTask& t) { return DequantizeRun{t.words, t.elements, t.exponents, t.tensor}; });
      return dequantize(stream, format, runs, work == DeviceWork::kDecodeKeeping);
    }
    case DeviceWork::kFlags: {
      const auto runs =
          runs_of<FlagRun>(tasks, [](const DeviceTask& t) { return FlagRun{t.tensor, t.elements, t.words}; });
      return non_finite_flags(stream, format, runs);
    }
    case DeviceWork::kFiniteExponents: return block_exponents(stream, format, exponents(tasks), true);
    case DeviceWork::kClear: {
      Status status;
      for (auto task = tasks.begin(); task != tasks.end() && status.ok(); ++task) {
        status = clear(stream, {task->words, task->elements});
      }
      return status;
    }
    case DeviceWork::kEncode:
    case DeviceWork::kExponents: break;
  }
  return {};
}

// The kinds of work that have a kernel of their own, in the order in which they run. kEncode and kExponents are not
// among them: one kernel does both.
constexpr DeviceWork kAlone[] = {DeviceWork::kApplyFlagsClearing,
                                 DeviceWork::kApplyFlags,
                                 DeviceWork::kDecode,
                                 DeviceWork::kDecodeKeeping,
                                 DeviceWork::kFlags,
                                 DeviceWork::kFiniteExponents,
                                 DeviceWork::kClear};

}  // namespace

Status queue_tasks(cuda::Stream stream, const DeviceFormat& format, Tasks tasks) {
  std::vector<numerics::ElementType> types;
  for (const DeviceTask& task : tasks) {
    if (std::find(types.begin(), types.end(), task.type) == types.end()) types.push_back(task.type);
  }
  const auto format_of = [&](const DeviceTask& task) {
    cuda::Format result;
    result.type = task.type;
    result.block_size = format.block_size;
    result.workers = format.devices;
    result.order = task.order;
    return result;
  };
  for (const DeviceWork work : kAlone) {
    for (const numerics::ElementType type : types) {
      const Tasks alike = select(tasks, work, type);
      if (alike.empty()) continue;
      if (Status status = queue_one(stream, format_of(alike.front()), work, alike); !status.ok()) return status;
    }
  }
  for (const numerics::ElementType type : types) {
    const Tasks now = select(tasks, DeviceWork::kEncode, type), next = select(tasks, DeviceWork::kExponents, type);
    if (now.empty() && next.empty()) continue;
    const auto encode = runs_of<cuda::QuantizeRun>(
        now, [](const DeviceTask& t) { return cuda::QuantizeRun{t.tensor, t.elements, t.exponents, t.words}; });
    const cuda::Format one = format_of(now.empty() ? next.front() : now.front());
    const Status status = now.empty() ? cuda::block_exponents(stream, one, exponents(next), false)
                                      : cuda::quantize_and_look_ahead(stream, one, encode, exponents(next), false);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace jaxina
