// Usage: [JAXINA_GPU_TEST_SMALL=1] kernels_on_gpu [SEED]. Compares the kernels on the GPU with the CPU codec, bit for
// bit. It covers every element type, word, byte order and rounding; blocks of many sizes; misaligned memory; more runs
// than one kernel takes; NaN, Inf, subnormal and huge values; a captured graph; and arrays of more than 2^31 bytes and
// 2^31 elements.
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
#include "cuda_kernels/forms.h"
#include "cuda_kernels/kernel_bodies.h"
#include "rdma_engine/numerics/element_codec.h"
#include "rdma_engine/numerics/float_mode.h"

namespace jaxina::cuda {
namespace {

using numerics::ElementCodec;
using numerics::ElementType;
using numerics::Order;
using numerics::Rounding;
using numerics::Store;
using numerics::WireWord;

constexpr std::uint8_t kUntouched = 0xa5;

void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.text());
}

// Device memory at a chosen offset from a 256-byte boundary, filled with a pattern.
class DeviceBytes {
 public:
  DeviceBytes(std::size_t size, std::size_t offset) : size_(size), offset_(offset) {
    must(cudaMalloc(&memory_, size + offset + 64), "cudaMalloc");
    must(cudaMemset(memory_, kUntouched, size + offset + 64), "cudaMemset");
  }
  ~DeviceBytes() { cudaFree(memory_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::uint8_t* data() const { return static_cast<std::uint8_t*>(memory_) + offset_; }
  std::size_t size() const { return size_; }
  void put(const std::vector<std::uint8_t>& bytes) {
    must(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "copying to the GPU");
  }
  // Returns the bytes, and 16 bytes behind them, which nobody may touch.
  std::vector<std::uint8_t> get() const {
    std::vector<std::uint8_t> bytes(size_ + 16);
    must(cudaMemcpy(bytes.data(), data(), bytes.size(), cudaMemcpyDeviceToHost), "copying from the GPU");
    return bytes;
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_, offset_;
};

std::mt19937_64 random_bits;
std::uint64_t below(std::uint64_t bound) { return random_bits() % bound; }

std::uint64_t exponent_mask(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return 0x7f800000;
    case ElementType::kFloat16: return 0x7c00;
    case ElementType::kBfloat16: return 0x7f80;
    case ElementType::kFloat64: return 0x7ff0000000000000;
    default: return 0;
  }
}

// Returns random elements. A block has any bits, zeros, subnormal numbers, huge numbers, numbers of one magnitude, or
// some NaN and Inf.
std::vector<std::uint8_t> elements(ElementType type, std::size_t count, std::size_t of_block) {
  const std::size_t size = numerics::element_codec(type).size;
  const std::uint64_t mask = exponent_mask(type), lowest = mask & (~mask + 1);
  std::vector<std::uint8_t> bytes(count * size);
  for (std::size_t first = 0; first < count; first += of_block) {
    const std::uint64_t kind = below(6), field = mask == 0 ? 0 : lowest * (1 + below(mask / lowest - 1));
    for (std::size_t i = first; i < std::min(count, first + of_block); ++i) {
      std::uint64_t bits = random_bits();
      if (kind == 0) bits = 0;
      if (kind == 1) bits &= ~mask;
      if (kind == 2) bits = (bits & ~mask) | (mask - lowest);
      if (kind >= 4) bits = (bits & ~mask) | (field > 3 * lowest ? field - lowest * below(3) : field);
      if (kind == 5 && below(9) == 0) bits |= mask;
      if (kind == 5 && below(30) == 0) bits = mask | (below(2) << (8 * size - 1));
      std::memcpy(bytes.data() + i * size, &bits, size);
    }
  }
  return bytes;
}

std::size_t elements_of_block(const Format& format) {
  return format.block_size / numerics::element_codec(format.type).words;
}
std::size_t blocks_for(const Format& format, std::size_t count) {
  return (count + elements_of_block(format) - 1) / elements_of_block(format);
}
std::size_t words_for(const Format& format, std::size_t count) {
  if (count == 0) return 0;
  const std::size_t before = blocks_for(format, count) - 1;
  return before * format.block_size +
         (count - before * elements_of_block(format)) * numerics::element_codec(format.type).words;
}

// ---- the CPU's results

std::vector<std::uint8_t> cpu_exponents(const Format& format, const std::vector<std::uint8_t>& x, std::size_t count,
                                        bool finite_only) {
  const ElementCodec& codec = numerics::element_codec(format.type);
  const std::size_t of_block = elements_of_block(format);
  std::vector<std::uint8_t> exponents;
  for (std::size_t first = 0; first < count; first += of_block) {
    exponents.push_back((finite_only ? codec.finite_exponent : codec.exponent)(
        numerics::codec(), x.data() + first * codec.size, std::min(of_block, count - first)));
  }
  return exponents;
}

template <class Form, class Word, bool stochastic>
void encode_element_by_element(const Format& format, const std::uint8_t* x, std::size_t count, std::uint8_t exponent,
                               std::uint64_t seed, std::uint64_t index, std::uint8_t* words) {
  const auto scale = Form::encode_scale(exponent, numerics::scale_for(format.workers, format.word));
  for (std::size_t i = 0; i < count; ++i) {
    typename Form::Element element;
    std::memcpy(&element, x + i * sizeof(element), sizeof(element));
    std::uint32_t encoded[Form::kWords];
    encode_element<Form, stochastic>(element, scale, seed, index + i, encoded);
    const Word word = in_order(static_cast<Word>(encoded[0]), format.order == Order::kBigEndian);
    std::memcpy(words + i * sizeof(word), &word, sizeof(word));
  }
}

std::vector<std::uint8_t> cpu_words(const Format& format, const std::vector<std::uint8_t>& x, std::size_t count,
                                    const std::vector<std::uint8_t>& exponents, Rounding rounding,
                                    std::uint64_t index) {
  const numerics::IeeeFloatMode mode;
  const ElementCodec& codec = numerics::element_codec(format.type);
  const std::size_t of_block = elements_of_block(format), word = static_cast<std::size_t>(format.word);
  std::vector<std::uint8_t> words(words_for(format, count) * word);
  for (std::size_t b = 0; b < blocks_for(format, count); ++b) {
    const std::size_t first = b * of_block, n = std::min(of_block, count - first);
    const std::uint8_t* from = x.data() + first * codec.size;
    std::uint8_t* to = words.data() + b * format.block_size * word;
    if (format.word == WireWord::kInt32 && !rounding.stochastic) {
      codec.encode(numerics::codec(), from, n, exponents[b], numerics::scale_for(format.workers),
                   format.order == Order::kBigEndian ? Store::kBigEndian : Store::kWrite,
                   reinterpret_cast<std::uint32_t*>(to));
      continue;
    }
    with_encoding(format, rounding, [&](auto form, auto w, auto stochastic) {
      using Form = typename decltype(form)::type;
      encode_element_by_element<Form, typename decltype(w)::type, stochastic.value>(format, from, n, exponents[b],
                                                                                    rounding.seed, index + first, to);
      return 0;
    });
  }
  return words;
}

template <class Form, class Word>
void decode_element_by_element(const Format& format, const std::uint8_t* words, std::size_t count,
                               std::uint8_t exponent, std::uint8_t* y) {
  const auto scale = Form::decode_scale(exponent, numerics::scale_for(format.workers, format.word));
  for (std::size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, words + i * sizeof(word), sizeof(word));
    std::uint32_t taken[Form::kWords] = {extended(in_order(word, format.order == Order::kBigEndian))};
    const auto element = Form::decode(taken, scale, false, {});
    std::memcpy(y + i * sizeof(element), &element, sizeof(element));
  }
}

void cpu_values(const Format& format, const std::vector<std::uint8_t>& words, std::size_t count,
                const std::vector<std::uint8_t>& exponents, bool keep, std::vector<std::uint8_t>& y) {
  const numerics::IeeeFloatMode mode;
  const ElementCodec& codec = numerics::element_codec(format.type);
  const std::size_t of_block = elements_of_block(format);
  for (std::size_t b = 0; b < blocks_for(format, count); ++b) {
    const std::size_t first = b * of_block, n = std::min(of_block, count - first);
    const std::uint8_t* from = words.data() + b * format.block_size * static_cast<std::size_t>(format.word);
    std::uint8_t* to = y.data() + first * codec.size;
    if (format.word == WireWord::kInt32) {
      codec.decode(numerics::codec(), reinterpret_cast<const std::uint32_t*>(from), n, exponents[b],
                   numerics::scale_for(format.workers), format.order, keep, to);
      continue;
    }
    with_form_and_word(format, [&](auto form, auto w) {
      decode_element_by_element<typename decltype(form)::type, typename decltype(w)::type>(format, from, n,
                                                                                           exponents[b], to);
      return 0;
    });
  }
}

// ---- comparing

int passed = 0, failed = 0, skipped = 0;

std::string name_of(const Format& format) {
  return std::string(to_string(format.type)) + " k=" + std::to_string(format.block_size) +
         " n=" + std::to_string(format.workers) + " word=" + std::to_string(8 * static_cast<int>(format.word)) +
         (format.order == Order::kBigEndian ? " big-endian" : "");
}

// Compares the bytes with the expected ones. The bytes behind them must be untouched.
void compare(const std::string& what, const std::vector<std::uint8_t>& actual, std::vector<std::uint8_t> expected) {
  expected.resize(actual.size(), kUntouched);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    if (++failed < 20)
      std::printf("FAILED %s: byte %zu of %zu is %u, not %u\n", what.c_str(), i, actual.size(), actual[i], expected[i]);
    return;
  }
  ++passed;
}

struct Tensor {
  Tensor(const Format& format, std::size_t elements_, bool anywhere)
      : count(elements_),
        host(elements(format.type, count, elements_of_block(format))),
        x(host.size(), anywhere ? offset(numerics::element_codec(format.type).size) : 0),
        words(words_for(format, count) * static_cast<std::size_t>(format.word),
              anywhere ? offset(static_cast<std::size_t>(format.word)) : 0),
        exponents(blocks_for(format, count), anywhere ? below(7) : 0) {
    x.put(host);
  }
  static std::size_t offset(std::size_t alignment) { return alignment * below(16 / alignment); }

  std::size_t count;
  std::vector<std::uint8_t> host;
  DeviceBytes x, words, exponents;
};

void set_exponents(const Format& format, Tensor& tensor, std::vector<std::uint8_t>& exponents) {
  exponents = cpu_exponents(format, tensor.host, tensor.count, true);
  const unsigned most = format.type == ElementType::kFloat64 ? 227 : 254;
  for (std::uint8_t& exponent : exponents) {
    exponent = static_cast<std::uint8_t>(std::min<std::uint64_t>(exponent + below(3), most));
    if (format.type != ElementType::kFloat64 && below(8) == 0) exponent = static_cast<std::uint8_t>(below(255));
  }
  tensor.exponents.put(exponents);
}

// Checks all operations on these tensors, which have one format.
void check(Stream stream, const Format& format, std::vector<std::unique_ptr<Tensor>>& tensors, Rounding rounding) {
  const std::string name = name_of(format) + (rounding.stochastic ? " stochastic" : "");
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
    encode.push_back({tensor.x.data(), tensor.count, tensor.exponents.data(), tensor.words.data(), 1000003 * t});
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
      compare(name + how, tensors[t]->words.get(),
              cpu_words(format, tensors[t]->host, tensors[t]->count, exponents[t], rounding, 1000003 * t));
    }
  };
  must(quantize(stream, format, encode, rounding));
  settle();
  check_words(" quantize");
  for (auto& tensor : tensors) must(cudaMemset(tensor->words.data(), kUntouched, tensor->words.size()), "cudaMemset");
  for (auto& bytes : found) must(cudaMemset(bytes->data(), kUntouched, bytes->size()), "cudaMemset");
  must(quantize_and_look_ahead(stream, format, encode, find, rounding));
  settle();
  check_words(" quantize and look ahead");
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    compare(name + " exponents ahead", found[t]->get(),
            cpu_exponents(format, tensors[t]->host, tensors[t]->count, false));
  }

  for (const bool keep : {true, false}) {  // true comes first, because it needs the old values
    if (keep && !whole) continue;
    std::vector<std::vector<std::uint8_t>> expected;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      Tensor& tensor = *tensors[t];
      std::vector<std::uint8_t> sums(tensor.words.size());
      for (std::uint8_t& byte : sums) byte = static_cast<std::uint8_t>(random_bits());
      if (numerics::element_codec(format.type).words > 1) {  // the sums of limbs stay below 2^26
        const std::size_t top = format.order == Order::kBigEndian ? 0 : 3;
        for (std::size_t i = top; i < sums.size(); i += 4) sums[i] &= 3;
      }
      tensor.words.put(sums);
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
  if (!whole || rounding.stochastic) return;

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

std::vector<std::unique_ptr<Tensor>> tensors_of(const Format& format, bool anywhere, std::size_t how_many) {
  const std::size_t of_block = elements_of_block(format);
  std::vector<std::unique_ptr<Tensor>> tensors;
  for (std::size_t t = 0; t < how_many; ++t) {
    const std::size_t counts[] = {1 + below(40 * of_block), of_block, 7 * of_block + 1, 1, 0, 300 * of_block - 1};
    tensors.push_back(std::make_unique<Tensor>(format, counts[t % std::size(counts)], anywhere));
  }
  return tensors;
}

void check_formats(Stream stream, bool small) {
  const std::vector<std::uint32_t> all_sizes = {8, 61, 64, 256, 1024, 16384}, few_sizes = {61, 256};
  const std::vector<std::uint32_t> all_workers = {1, 3, 1024}, few_workers = {3};
  for (int type = 1; type <= 8; ++type) {
    for (const std::uint32_t block_size : small ? few_sizes : all_sizes) {
      for (const std::uint32_t workers : small ? few_workers : all_workers) {
        for (const Order order : {Order::kHost, Order::kBigEndian}) {
          const Format format{static_cast<ElementType>(type), block_size, workers, WireWord::kInt32, order};
          for (const bool anywhere : {false, true}) {
            auto tensors = tensors_of(format, anywhere, block_size > 1024 ? 3 : 6);
            check(stream, format, tensors, {});
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
          for (const std::uint32_t block_size : {61u, 256u}) {
            const Format format{type, block_size, 5, word, order};
            auto tensors = tensors_of(format, below(2) == 1, 6);
            check(stream, format, tensors, {stochastic, random_bits()});
          }
        }
      }
    }
  }
}

void check_many_runs(Stream stream) {
  const Format format;
  auto tensors = tensors_of(format, true, 3 * kMaxRuns + 5);
  check(stream, format, tensors, {});
}

// Captures operations in a graph and launches it twice, the second time on other values.
void check_graph(Stream stream) {
  const Format format;
  auto tensors = tensors_of(format, false, 2);
  std::vector<QuantizeRun> now;
  std::vector<std::vector<std::uint8_t>> exponents(tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    now.push_back({tensors[t]->x.data(), tensors[t]->count, tensors[t]->exponents.data(), tensors[t]->words.data(), 0});
  }
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  must(quantize(stream, format, now, {}));
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
              cpu_words(format, tensors[t]->host, tensors[t]->count, exponents[t], {}, 0));
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
  must(quantize(stream, format, encode, {}));
  must(cudaStreamSynchronize(stream), "running the kernels");

  const auto piece = [&](const std::uint8_t* from, std::size_t bytes) {
    std::vector<std::uint8_t> result(bytes);
    must(cudaMemcpy(result.data(), from, bytes, cudaMemcpyDeviceToHost), "copying from the GPU");
    return result;
  };
  const std::vector<std::uint8_t> tile_exponents = cpu_exponents(format, host, tile, true);
  const std::vector<std::uint8_t> tile_words = cpu_words(format, host, tile, tile_exponents, {}, 0);
  std::vector<std::uint8_t> tile_values(host.size());
  cpu_values(format, tile_words, tile, tile_exponents, false, tile_values);
  // The array's last block may be shorter than the tile's.
  const std::vector<std::uint8_t> short_host(host.begin(), host.begin() + tail * codec.size);
  const std::vector<std::uint8_t> short_exponents = cpu_exponents(format, short_host, tail, true);
  const std::vector<std::uint8_t> short_words = cpu_words(format, short_host, tail, short_exponents, {}, 0);
  std::vector<std::uint8_t> short_values(short_host.size());
  cpu_values(format, short_words, tail, short_exponents, false, short_values);

  for (std::size_t first = 0; first < count; first += tile) {
    const std::size_t n = std::min(tile, count - first);
    compare(name + " exponents", piece(exponents.data() + first / format.block_size, blocks_for(format, n)),
            n == tile ? tile_exponents : short_exponents);
    compare(name + " quantize", piece(words.data() + first * 4, n * 4), n == tile ? tile_words : short_words);
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
  return failed == 0 && passed > 0 ? 0 : 1;
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
