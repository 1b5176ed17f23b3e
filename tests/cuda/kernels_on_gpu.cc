// Usage: [JAXINA_GPU_TEST_SMALL=1] kernels_on_gpu [SEED]. Compares the kernels on the GPU with the CPU codec, bit for
// bit. It covers every element type, word, byte order and rounding, divided sums and packed flags; blocks of many
// sizes; misaligned memory; more runs than one kernel takes; NaN, Inf, subnormal and huge values; a captured graph; and
// arrays of more than 2^31 bytes and 2^31 elements.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_kernels/block_fixed_point.h"
#include "rdma_engine/numerics/element_codec.h"
#include "tests/cuda/narrow_on_gpu.h"
#include "tests/cuda/on_gpu.h"

namespace jaxina::cuda {
namespace {

using namespace on_gpu;

bool has_limbs(ElementType type) { return type == ElementType::kInt64 || type == ElementType::kFloat64; }

// Checks all operations on these tensors, which have one format.
void check(Stream stream, const Format& format, std::vector<std::unique_ptr<Tensor>>& tensors,
           bool stochastic = false) {
  const std::string name = name_of(format) + (stochastic ? " stochastic" : "");
  const bool is_float = numerics::element_codec(format.type).is_float;
  const bool whole = format.word == WireWord::kInt32;
  std::vector<ExponentRun> find;
  std::vector<QuantizeRun> encode;
  std::vector<DequantizeRun> decode;
  std::vector<FlagRun> flag;
  std::vector<ApplyFlagRun> apply;
  std::vector<std::vector<std::uint8_t>> exponents(tensors.size());
  std::vector<std::unique_ptr<DeviceBytes>> found;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    Tensor& tensor = *tensors[t];
    found.push_back(std::make_unique<DeviceBytes>(blocks_for(format, tensor.count), below(5)));
    find.push_back({tensor.x.data(), tensor.count, found[t]->data()});
    encode.push_back({tensor.x.data(), tensor.count, tensor.exponents.data(), tensor.words.data(), tensor.seed});
    decode.push_back({tensor.words.data(), tensor.count, tensor.exponents.data(), tensor.x.data()});
    flag.push_back({tensor.x.data(), tensor.count, tensor.words.data()});
    apply.push_back({tensor.words.data(), tensor.count, tensor.x.data()});
    set_exponents(format, tensor, exponents[t]);
  }
  const auto settle = [&] { must(cudaStreamSynchronize(stream), "running the kernels"); };

  for (const bool finite_only : {true, false}) {
    must(block_exponents(stream, format, find, finite_only));
    settle();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      compare(name + " exponents", found[t]->get(),
              cpu_exponents(format, tensors[t]->host, tensors[t]->count, finite_only));
    }
  }

  const auto check_words = [&](const char* how) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const Tensor& tensor = *tensors[t];
      compare(name + how, tensor.words.get(),
              stored(cpu_words(format, tensor.host, tensor.count, exponents[t], stochastic, tensor.seed), format.word,
                     format.order));
    }
  };
  must(quantize(stream, format, encode, stochastic));
  settle();
  check_words(" quantize");
  for (auto& tensor : tensors) must(cudaMemset(tensor->words.data(), kUntouched, tensor->words.size()), "cudaMemset");
  for (auto& bytes : found) must(cudaMemset(bytes->data(), kUntouched, bytes->size()), "cudaMemset");
  must(quantize_and_look_ahead(stream, format, encode, find, stochastic));
  settle();
  check_words(" quantize and look ahead");
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    compare(name + " exponents ahead", found[t]->get(),
            cpu_exponents(format, tensors[t]->host, tensors[t]->count, false));
  }
  if (whole && format.order == Order::kHost && !stochastic) {  // the words are there; add them once more
    must(add_quantized(stream, format, encode));
    settle();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::vector<std::uint32_t> twice =
          cpu_words(format, tensors[t]->host, tensors[t]->count, exponents[t], false, tensors[t]->seed);
      for (std::uint32_t& word : twice) word *= 2;
      compare(name + " add quantized", tensors[t]->words.get(), stored(twice, format.word, format.order));
    }
  }

  for (const bool keep : {true, false}) {  // true comes first, because it needs the old values
    std::vector<std::vector<std::uint8_t>> expected;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      Tensor& tensor = *tensors[t];
      std::vector<std::uint32_t> sums(words_for(format, tensor.count));
      for (std::uint32_t& sum : sums) {
        sum = static_cast<std::uint32_t>(static_cast<std::int32_t>(random_bits()) >>
                                         (32 - numerics::bits_of(format.word)));
        if (has_limbs(format.type)) sum &= 0x03ffffff;  // the sums of limbs stay below 2^26
      }
      tensor.words.put(stored(sums, format.word, format.order));
      tensor.x.put(tensor.host);
      expected.push_back(tensor.host);
      cpu_values(format, sums, tensor.count, exponents[t], keep, expected.back());
    }
    must(dequantize(stream, format, decode, keep));
    settle();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      compare(name + (keep ? " dequantize, keeping" : " dequantize"), tensors[t]->x.get(), expected[t]);
      tensors[t]->x.put(tensors[t]->host);
    }
  }
  if (!whole || stochastic) return;

  must(non_finite_flags(stream, format, flag));
  must(apply_non_finite_flags(stream, format, apply, true));
  settle();
  const ElementCodec& codec = numerics::element_codec(format.type);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    Tensor& tensor = *tensors[t];
    std::vector<std::uint8_t> words(tensor.words.size()), values = tensor.host;
    for (std::size_t b = 0; b < blocks_for(format, tensor.count); ++b) {
      const std::size_t first = b * elements_of_block(format),
                        n = std::min(elements_of_block(format), tensor.count - first);
      auto* sum = reinterpret_cast<std::uint32_t*>(words.data()) + b * format.block_size;
      codec.flags(numerics::codec(), tensor.host.data() + first * codec.size, n,
                  format.order == Order::kBigEndian ? Store::kBigEndian : Store::kWrite, sum);
      codec.apply_flags(numerics::codec(), sum, n, format.order, true, values.data() + first * codec.size);
    }
    compare(name + " flags", tensor.words.get(), words);
    compare(name + " apply flags", tensor.x.get(), is_float ? values : tensor.host);
  }
}

void check_formats(Stream stream, bool small) {
  const std::vector<std::uint32_t> all_sizes = {8, 61, 64, 256, 1024, 16384}, few_sizes = {61, 256};
  const std::vector<std::uint32_t> all_workers = {1, 3, 1024}, few_workers = {3};
  for (int type = 1; type <= static_cast<int>(ElementType::kWideBfloat16); ++type) {
    for (const std::uint32_t block_size : small ? few_sizes : all_sizes) {
      for (const std::uint32_t workers : small ? few_workers : all_workers) {
        for (const Order order : {Order::kHost, Order::kBigEndian}) {
          const Format format{static_cast<ElementType>(type), block_size, workers, WireWord::kInt32, order};
          for (const bool anywhere : {false, true}) {
            auto tensors = tensors_of(format, format.word, anywhere, block_size > 1024 ? 3 : 6);
            check(stream, format, tensors);
          }
        }
      }
    }
  }
}

void check_wire_formats(Stream stream) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16}) {
    for (const WireWord word : {WireWord::kInt32, WireWord::kInt16, WireWord::kInt8}) {
      for (const Order order : {Order::kHost, Order::kBigEndian}) {
        for (const bool stochastic : {false, true}) {
          for (const std::uint32_t block_size : {word == WireWord::kInt32 ? 61u : 60u, 256u}) {
            const std::uint32_t shift = word == WireWord::kInt32 ? 0 : static_cast<std::uint32_t>(below(21));
            const Format format{type, block_size, 5, word, order, shift};
            auto tensors = tensors_of(format, word, below(2) == 1, 6);
            check(stream, format, tensors, stochastic);
          }
        }
      }
    }
  }
}

void check_many_runs(Stream stream) {
  const Format format;
  auto tensors = tensors_of(format, format.word, true, 3 * kMaxRuns + 5);
  check(stream, format, tensors);
}

// Captures operations in a graph and launches it twice, the second time on other values.
void check_graph(Stream stream) {
  const Format format;
  auto tensors = tensors_of(format, format.word, false, 2);
  std::vector<QuantizeRun> now;
  std::vector<std::vector<std::uint8_t>> exponents(tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    now.push_back({tensors[t]->x.data(), tensors[t]->count, tensors[t]->exponents.data(), tensors[t]->words.data(), 0});
  }
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  must(quantize(stream, format, now, false));
  must(cudaStreamEndCapture(stream, &graph), "ending a capture");
  must(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
  for (int round = 0; round < 2; ++round) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      tensors[t]->host = elements(format.type, tensors[t]->count, 256);
      tensors[t]->x.put(tensors[t]->host);
      set_exponents(format, *tensors[t], exponents[t]);
    }
    must(cudaGraphLaunch(executable, stream), "launching a graph");
    must(cudaStreamSynchronize(stream), "running a graph");
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      compare("graph", tensors[t]->words.get(),
              stored(cpu_words(format, tensors[t]->host, tensors[t]->count, exponents[t], false, 0), format.word,
                     format.order));
    }
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

// Checks an array that repeats one tile of whole blocks, so that every tile has the results of the first one.
void check_huge(Stream stream, const Format& format, std::size_t count) {
  const ElementCodec& codec = numerics::element_codec(format.type);
  const std::size_t tile = std::size_t{1} << 24, tail = count % tile;
  const std::vector<std::uint8_t> host = elements(format.type, tile, format.block_size);
  std::size_t free_bytes = 0, total = 0;
  must(cudaMemGetInfo(&free_bytes, &total), "asking for the free memory");
  const std::size_t needed = count * (codec.size + 4) + count / format.block_size + (std::size_t{1} << 30);
  if (free_bytes < needed) {
    std::printf("%zu elements of %s need %zu MiB, %zu are free\n", count, to_string(format.type).data(), needed >> 20,
                free_bytes >> 20);
    ++skipped;
    return;
  }
  DeviceBytes x(count * codec.size, 0), words(count * 4, 0), exponents(blocks_for(format, count), 0);
  for (std::size_t first = 0; first < count; first += tile) {
    must(cudaMemcpy(x.data() + first * codec.size, host.data(), std::min(tile, count - first) * codec.size,
                    cudaMemcpyHostToDevice),
         "copying to the GPU");
  }
  const std::string name = std::to_string(count) + " elements of " + std::string(to_string(format.type));
  const ExponentRun find[] = {{x.data(), count, exponents.data()}};
  const QuantizeRun encode[] = {{x.data(), count, exponents.data(), words.data(), 0}};
  const DequantizeRun decode[] = {{words.data(), count, exponents.data(), x.data()}};
  must(block_exponents(stream, format, find, true));
  must(quantize(stream, format, encode, false));
  must(cudaStreamSynchronize(stream), "running the kernels");

  const auto piece = [&](const std::uint8_t* from, std::size_t bytes) {
    std::vector<std::uint8_t> result(bytes);
    must(cudaMemcpy(result.data(), from, bytes, cudaMemcpyDeviceToHost), "copying from the GPU");
    return result;
  };
  const std::vector<std::uint8_t> tile_exponents = cpu_exponents(format, host, tile, true);
  const std::vector<std::uint32_t> tile_words = cpu_words(format, host, tile, tile_exponents, false, 0);
  std::vector<std::uint8_t> tile_values(host.size());
  cpu_values(format, tile_words, tile, tile_exponents, false, tile_values);
  // The array's last block may be shorter than the tile's.
  const std::vector<std::uint8_t> short_host(host.begin(), host.begin() + tail * codec.size);
  const std::vector<std::uint8_t> short_exponents = cpu_exponents(format, short_host, tail, true);
  const std::vector<std::uint32_t> short_words = cpu_words(format, short_host, tail, short_exponents, false, 0);
  std::vector<std::uint8_t> short_values(short_host.size());
  cpu_values(format, short_words, tail, short_exponents, false, short_values);

  for (std::size_t first = 0; first < count; first += tile) {
    const std::size_t n = std::min(tile, count - first);
    compare(name + " exponents", piece(exponents.data() + first / format.block_size, blocks_for(format, n)),
            n == tile ? tile_exponents : short_exponents);
    compare(name + " quantize", piece(words.data() + first * 4, n * 4),
            stored(n == tile ? tile_words : short_words, format.word, format.order));
  }
  must(dequantize(stream, format, decode, false));
  must(cudaStreamSynchronize(stream), "running the kernels");
  for (std::size_t first = 0; first < count; first += tile) {
    const std::size_t n = std::min(tile, count - first);
    compare(name + " dequantize", piece(x.data() + first * codec.size, n * codec.size),
            n == tile ? tile_values : short_values);
  }
}

template <class Check>
void run(const char* name, Check check) {
  const auto start = std::chrono::steady_clock::now();
  const int failed_before = failed, skipped_before = skipped;
  check();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-14s %s, %.1f s\n", name,
              failed != failed_before     ? "FAILED"
              : skipped != skipped_before ? "SKIPPED"
                                          : "ok",
              seconds);
  std::fflush(stdout);
}

int main_of(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  random_bits.seed(seed);
  cudaStream_t stream;  // a blocking stream: it and the default stream, with the copies and fills, wait for each other
  must(cudaStreamCreate(&stream), "creating a stream");
  // Everything takes long under compute-sanitizer, so there are no huge arrays and fewer formats for it.
  const bool small = std::getenv("JAXINA_GPU_TEST_SMALL") != nullptr;
  run("formats", [&] { check_formats(stream, small); });
  run("wire formats", [&] { check_wire_formats(stream); });
  run("divisions", [&] { check_divisions(stream); });
  run("packed flags", [&] { check_packed_flags(stream); });
  run("many runs", [&] { check_many_runs(stream); });
  run("graph", [&] { check_graph(stream); });
  if (!small) {
    run("2^31 bytes", [&] { check_huge(stream, {}, (std::size_t{1} << 29) + (std::size_t{1} << 20) + 3); });
    run("2^31 elements", [&] {
      check_huge(stream, {.type = ElementType::kBfloat16, .order = Order::kBigEndian}, (std::size_t{1} << 31) + 77);
    });
  }
  must(cudaStreamDestroy(stream), "ending a stream");
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return exit_status(passed, failed, skipped);
}

}  // namespace
}  // namespace jaxina::cuda

int main(int argc, char** argv) {
  try {
    return jaxina::cuda::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 2;
  }
}
