// Usage: kernel_bench [JSON_FILE [MIB...]]. Measures the bandwidth of the block-fixed-point kernels, beside that of a
// copy on the same device. MIB: the size of the float32 elements in MiB, 256 and 1024 by default. Types of other sizes
// have the same number of elements.
//
// Bandwidth counts the bytes that a kernel must read and write: elements, words and exponents, each once. For the copy
// these are twice its size. Every repetition runs the copy and all kernels once, so that they all suffer alike from
// other work on the device. A result is the median of the repetitions. The values are normally distributed around 0,
// and the exponents are those of the values.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_kernels/block_fixed_point.h"

namespace jaxina::cuda {
namespace {

using numerics::ElementType;
using numerics::Order;
using numerics::WireWord;

constexpr int kWarmUps = 3;
constexpr int kRepetitions = 30;

void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.text());
}

struct DeviceArray {
  explicit DeviceArray(std::size_t bytes) { must(cudaMalloc(&data, bytes), "cudaMalloc"); }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  void* data = nullptr;
};

struct Operation {
  std::string name;
  double bytes;  // that it reads and writes
  std::function<void(cudaStream_t)> queue;
  std::vector<float> milliseconds = {};

  double gigabytes_per_second() const {
    std::vector<float> sorted = milliseconds;
    std::sort(sorted.begin(), sorted.end());
    return bytes / (sorted[sorted.size() / 2] * 1e6);
  }
};

void fill(void* x, ElementType type, std::size_t count) {
  const std::size_t tile = std::min(count, std::size_t{1} << 22);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const std::size_t size = numerics::element_codec(type).size;
  std::vector<std::uint8_t> host(tile * size);
  for (std::size_t i = 0; i < tile; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(normal(random));
    const std::uint32_t stored = type == ElementType::kBfloat16 ? bits >> 16 : bits;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&stored), size, host.data() + i * size);
  }
  for (std::size_t first = 0; first < count; first += tile) {
    must(cudaMemcpy(static_cast<std::uint8_t*>(x) + first * size, host.data(), std::min(tile, count - first) * size,
                    cudaMemcpyHostToDevice),
         "copying to the GPU");
  }
}

// All measurements at one size. Two tensors, each far larger than a cache, are used by turns, so that no kernel finds
// its input in the cache because of the kernel before it.
class Measurement {
 public:
  explicit Measurement(std::size_t mib)
      : count_((mib << 20) / sizeof(float)),
        x_(count_ * 4),
        next_(count_ * 4),
        narrow_(count_ * 2),
        words_(count_ * 4),
        exponents_(count_ / 256 + 1),
        next_exponents_(count_ / 256 + 1),
        narrow_exponents_(count_ / 256 + 1) {
    fill(x_.data, ElementType::kFloat32, count_);
    fill(next_.data, ElementType::kFloat32, count_);
    fill(narrow_.data, ElementType::kBfloat16, count_);
    const ExponentRun runs[] = {exponents_of(x_, exponents_), exponents_of(next_, next_exponents_)};
    const ExponentRun narrow_runs[] = {exponents_of(narrow_, narrow_exponents_)};
    must(block_exponents(nullptr, {}, runs, true));
    must(block_exponents(nullptr, {.type = ElementType::kBfloat16}, narrow_runs, true));
    must(cudaDeviceSynchronize(), "finding exponents");
    add_operations();
  }

  void run(cudaStream_t stream) {
    cudaEvent_t begin, end;
    must(cudaEventCreate(&begin), "creating an event");
    must(cudaEventCreate(&end), "creating an event");
    for (int repetition = -kWarmUps; repetition < kRepetitions; ++repetition) {
      for (Operation& operation : operations_) {
        must(cudaEventRecord(begin, stream), "recording an event");
        operation.queue(stream);
        must(cudaEventRecord(end, stream), "recording an event");
        must(cudaEventSynchronize(end), operation.name.c_str());
        float milliseconds = 0;
        must(cudaEventElapsedTime(&milliseconds, begin, end), "reading a time");
        if (repetition >= 0) operation.milliseconds.push_back(milliseconds);
      }
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }

  const std::vector<Operation>& operations() const { return operations_; }

 private:
  ExponentRun exponents_of(const DeviceArray& x, const DeviceArray& exponents) const {
    return {x.data, count_, static_cast<std::uint8_t*>(exponents.data)};
  }
  QuantizeRun quantize_of(const DeviceArray& x, const DeviceArray& exponents) const {
    return {x.data, count_, static_cast<const std::uint8_t*>(exponents.data), words_.data, 7};
  }
  DequantizeRun dequantize_of(const DeviceArray& y, const DeviceArray& exponents) const {
    return {words_.data, count_, static_cast<const std::uint8_t*>(exponents.data), y.data, 7};
  }

  void add_operations() {
    const double n = static_cast<double>(count_), e = n / 256;
    const Format native, network{.workers = 4, .order = Order::kBigEndian};
    const Format int16{.word = WireWord::kInt16, .order = Order::kBigEndian, .shift = 2};
    const Format int8{.word = WireWord::kInt8, .order = Order::kBigEndian, .shift = 2};
    const Format brain{.type = ElementType::kBfloat16, .workers = 4};
    const Format brain_int8{.type = ElementType::kBfloat16, .word = WireWord::kInt8, .order = Order::kBigEndian};

    operations_.push_back({"copy", 8 * n, [this](cudaStream_t stream) {
                             must(cudaMemcpyAsync(words_.data, x_.data, 4 * count_, cudaMemcpyDeviceToDevice, stream),
                                  "copying");
                           }});
    const auto add_quantize = [&](const char* name, Format format, double bytes, const DeviceArray& x,
                                  const DeviceArray& exponents, bool stochastic) {
      operations_.push_back({name, bytes, [=, run = quantize_of(x, exponents)](cudaStream_t stream) {
                               must(quantize(stream, format, {&run, 1}, stochastic));
                             }});
    };
    const auto add_dequantize = [&](const char* name, Format format, double bytes, const DeviceArray& y,
                                    const DeviceArray& exponents) {
      operations_.push_back({name, bytes, [=, run = dequantize_of(y, exponents)](cudaStream_t stream) {
                               must(dequantize(stream, format, {&run, 1}, false));
                             }});
    };
    operations_.push_back(
        {"exponents float32", 4 * n + e, [run = exponents_of(next_, next_exponents_)](cudaStream_t stream) {
           must(block_exponents(stream, {}, {&run, 1}, false));
         }});
    add_quantize("quantize float32 -> int32", native, 8 * n + e, x_, exponents_, false);
    add_quantize("quantize float32 -> int32 big-endian", network, 8 * n + e, x_, exponents_, false);
    add_quantize("quantize float32 -> int16", int16, 6 * n + e, x_, exponents_, false);
    add_quantize("quantize float32 -> int8", int8, 5 * n + e, x_, exponents_, false);
    add_quantize("quantize float32 -> int8 stochastic", int8, 5 * n + e, x_, exponents_, true);
    add_quantize("quantize bfloat16 -> int32", brain, 6 * n + e, narrow_, narrow_exponents_, false);
    add_quantize("quantize bfloat16 -> int8", brain_int8, 3 * n + e, narrow_, narrow_exponents_, false);
    operations_.push_back(
        {"add quantized float32 to int32", 12 * n + e,
         [run = quantize_of(x_, exponents_)](cudaStream_t stream) { must(add_quantized(stream, {}, {&run, 1})); }});
    const auto add_fused = [&](const char* name, Format format, double bytes) {
      operations_.push_back(
          {name, bytes,
           [format, now = quantize_of(x_, exponents_), next = exponents_of(next_, next_exponents_)](
               cudaStream_t stream) { must(quantize_and_look_ahead(stream, format, {&now, 1}, {&next, 1}, false)); }});
    };
    add_fused("quantize to int8 and look ahead, float32", int8, 9 * n + 2 * e);
    add_fused("quantize and look ahead, float32", network, 12 * n + 2 * e);
    // Dequantizes the words that the fused kernel has left. Their values do not change the time.
    add_dequantize("dequantize int32 big-endian -> float32", network, 8 * n + e, next_, next_exponents_);
    add_dequantize("dequantize int32 -> float32", native, 8 * n + e, next_, next_exponents_);
    add_dequantize("dequantize int16 -> float32", int16, 6 * n + e, next_, next_exponents_);
    add_dequantize("dequantize int8 -> float32", int8, 5 * n + e, next_, next_exponents_);
    for (const bool stochastic : {false, true}) {
      operations_.push_back({stochastic ? "divide sums of int8, stochastic" : "divide sums of int8", 8 * n + e,
                             [=, run = dequantize_of(next_, next_exponents_)](cudaStream_t stream) {
                               must(divide_and_dequantize(stream, int8, {&run, 1}, {2, stochastic}, false));
                             }});
    }
    add_dequantize("dequantize int32 -> bfloat16", brain, 6 * n + e, narrow_, narrow_exponents_);
  }

  std::size_t count_;
  DeviceArray x_, next_, narrow_, words_, exponents_, next_exponents_, narrow_exponents_;
  std::vector<Operation> operations_;
};

std::string device_name() {
  cudaDeviceProp properties;
  must(cudaGetDeviceProperties(&properties, 0), "asking for the device");
  return properties.name;
}

void write_json(const char* path, const std::string& device, const std::vector<std::string>& rows) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) throw std::runtime_error(std::string("cannot write ") + path);
  int driver = 0, runtime = 0;
  must(cudaDriverGetVersion(&driver), "asking for the driver");
  must(cudaRuntimeGetVersion(&runtime), "asking for the runtime");
  std::fprintf(file, "{\"device\": \"%s\", \"driver_cuda\": %d, \"runtime_cuda\": %d, \"rows\": [\n", device.c_str(),
               driver, runtime);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::fprintf(file, "  %s%s\n", rows[i].c_str(), i + 1 < rows.size() ? "," : "");
  std::fprintf(file, "]}\n");
  if (std::fclose(file) != 0) throw std::runtime_error(std::string("cannot write ") + path);
}

int main_of(int argc, char** argv) {
  std::vector<std::size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {256, 1024};
  const std::string device = device_name();
  cudaStream_t stream;
  must(cudaStreamCreate(&stream), "creating a stream");
  std::vector<std::string> rows;
  std::printf("%s, %d repetitions\n%8s  %-40s %10s %9s\n", device.c_str(), kRepetitions, "MiB", "operation", "GB/s",
              "of copy");
  for (const std::size_t mib : sizes) {
    Measurement measurement(mib);
    measurement.run(stream);
    const double copy = measurement.operations().front().gigabytes_per_second();
    for (const Operation& operation : measurement.operations()) {
      const double speed = operation.gigabytes_per_second();
      std::printf("%8zu  %-40s %10.0f %8.0f%%\n", mib, operation.name.c_str(), speed, 100 * speed / copy);
      char row[400];
      std::snprintf(row, sizeof(row),
                    "{\"mib\": %zu, \"operation\": \"%s\", \"bytes\": %.0f, \"gb_per_s\": %.1f, \"of_copy\": %.4f}",
                    mib, operation.name.c_str(), operation.bytes, speed, speed / copy);
      rows.emplace_back(row);
    }
  }
  must(cudaStreamDestroy(stream), "ending a stream");
  if (argc > 1) write_json(argv[1], device, rows);
  return 0;
}

}  // namespace
}  // namespace jaxina::cuda

int main(int argc, char** argv) {
  try {
    return jaxina::cuda::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
