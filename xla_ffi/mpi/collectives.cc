#include "xla_ffi/mpi/collectives.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace jaxina::mpi {
namespace {

constexpr std::uint64_t kGather = 1u << 8;

std::uint64_t call_name(Type type, Op op) {
  return 1u << 16 | static_cast<std::uint64_t>(op) << 8 | static_cast<std::uint64_t>(type);
}

}  // namespace

void all_gather(const Communicator& communicator, const void* in, void* out, std::size_t bytes) {
  const std::size_t words = (bytes + 3) / 4;
  const auto n = static_cast<std::size_t>(communicator.size());
  std::vector<std::uint32_t> all(words * n, 0);
  std::memcpy(all.data() + words * static_cast<std::size_t>(communicator.rank()), in, bytes);
  if (n > 1) communicator.sum({ElementType::kInt32, all.size(), all.data(), all.data()}, kGather);
  for (std::size_t i = 0; i < n; ++i) {
    std::memcpy(static_cast<std::byte*>(out) + i * bytes, all.data() + i * words, bytes);
  }
}

void all_reduce(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op) {
  const DataType data = data_type(type);
  const auto n = static_cast<std::size_t>(communicator.size());
  if (n == 1) {
    std::memmove(out, in, count * data.bytes);
  } else if (op == Op::kSum) {
    communicator.sum({data.element, count * data.parts, in, out}, call_name(type, op));
  } else {
    std::vector<std::byte> all(n * count * data.bytes);
    all_gather(communicator, in, all.data(), count * data.bytes);
    reduce(all.data(), n, count, type, op, out);
  }
}

void reduce_scatter(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op) {
  const std::size_t bytes = count * data_type(type).bytes;
  std::vector<std::byte> reduced(static_cast<std::size_t>(communicator.size()) * bytes);
  all_reduce(communicator, in, reduced.data(), static_cast<std::size_t>(communicator.size()) * count, type, op);
  std::memcpy(out, reduced.data() + static_cast<std::size_t>(communicator.rank()) * bytes, bytes);
}

}  // namespace jaxina::mpi
