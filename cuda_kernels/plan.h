// Turns the arguments of a call (block_fixed_point.h) into the job of a kernel (jobs.h): checks them, counts the
// blocks, and chooses the number of threads in a group. Plain C++, without CUDA. Every span holds at most kMaxRuns
// runs.
#pragma once

#include <span>

#include "cuda_kernels/jobs.h"

namespace jaxina::cuda {

Status plan(const Format& format, std::span<const ExponentRun> runs, bool finite_only, ExponentJob& job);
Status plan(const Format& format, std::span<const QuantizeRun> runs, bool stochastic, EncodeJob& job);
// For add_quantized().
Status plan_adding(const Format& format, std::span<const QuantizeRun> runs, EncodeJob& job);
Status plan(const Format& format, std::span<const DequantizeRun> runs, bool keep_non_finite, DecodeJob& job);
Status plan(const Format& format, std::span<const DequantizeRun> runs, Division division, bool keep_non_finite,
            DecodeJob& job);
Status plan(const Format& format, std::span<const FlagRun> runs, EncodeJob& job);
Status plan(const Format& format, std::span<const ApplyFlagRun> runs, bool clear, DecodeJob& job);

// Returns how many CUDA thread blocks hold `groups` groups.
std::uint32_t thread_blocks(std::uint64_t groups, std::uint32_t log2_lanes);

}  // namespace jaxina::cuda
