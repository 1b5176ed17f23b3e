// Implements MPI's collectives with sums at the aggregator, and with messages for everything else.
#include "xla_ffi/mpi/collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "xla_ffi/mpi/running_program.h"

namespace jaxina::mpi {
namespace {

// Kinds of calls. They are part of a call's name, so processes that make different calls get a mismatch.
constexpr std::uint64_t kGather = 1, kReduce = 2, kScatter = 3;

std::uint64_t what(std::uint64_t kind, std::size_t count, Type type, Op op) {
  return hash_of({kind, count, static_cast<std::uint64_t>(type), static_cast<std::uint64_t>(op)});
}

// Splits memory into consecutive parts; part i ends at byte ends[i].
template <typename Part, typename Byte>
std::vector<Part> parts(Byte* memory, const std::vector<std::size_t>& ends) {
  std::vector<Part> result;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    result.push_back({memory + begin, end - begin});
    begin = end;
  }
  return result;
}

std::vector<std::size_t> equal_parts(std::size_t n, std::size_t bytes) {
  std::vector<std::size_t> ends(n);
  for (std::size_t i = 0; i < n; ++i) ends[i] = (i + 1) * bytes;
  return ends;
}

// Returns this process's part of the operands, reduced over all processes. Each process reduces one part: part i of
// `in` ends at element ends[i] and goes to the process of rank i.
std::vector<std::byte> reduce_own(const Communicator& communicator, const void* in,
                                  const std::vector<std::size_t>& ends, Type type, Op op, std::uint64_t name) {
  const auto n = static_cast<std::size_t>(communicator.size());
  const auto own = static_cast<std::size_t>(communicator.rank());
  const std::size_t width = data_type(type).bytes;
  const std::size_t count = ends[own] - (own == 0 ? 0 : ends[own - 1]);
  std::vector<std::size_t> bytes(ends);
  for (std::size_t& end : bytes) end *= width;

  std::vector<std::byte> operands(n * count * width);
  communicator.exchange(parts<Bytes>(static_cast<const std::byte*>(in), bytes),
                        parts<WritableBytes>(operands.data(), equal_parts(n, count * width)), name);
  std::vector<std::byte> reduced(count * width);
  reduce(operands.data(), n, count, type, op, reduced.data());
  return reduced;
}

bool carried(Op op, std::size_t count) {
  return op == Op::kSum && running_program().carries_sum(count) && Engine::instance().running();
}

}  // namespace

void all_gather(const Communicator& communicator, const void* in, void* out, std::size_t bytes) {
  const auto n = static_cast<std::size_t>(communicator.size());
  // Copied because `in` may lie in `out`.
  const std::vector<std::byte> own(static_cast<const std::byte*>(in), static_cast<const std::byte*>(in) + bytes);
  communicator.exchange(std::vector<Bytes>(n, own),
                        parts<WritableBytes>(static_cast<std::byte*>(out), equal_parts(n, bytes)),
                        communicator.next_collective(hash_of({kGather, bytes})));
}

void all_reduce(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op) {
  const DataType data = data_type(type);
  const auto n = static_cast<std::size_t>(communicator.size());
  const std::uint64_t name = communicator.next_collective(what(kReduce, count, type, op));
  if (n == 1) {
    std::memmove(out, in, count * data.bytes);
  } else if (carried(op, count)) {
    communicator.sum(running_program().precision().tensor(data.element, count * data.parts, in, out), name);
  } else {
    std::vector<std::size_t> ends(n);
    for (std::size_t i = 0; i < n; ++i) ends[i] = count * (i + 1) / n;
    const std::vector<std::byte> reduced = reduce_own(communicator, in, ends, type, op, name);
    for (std::size_t& end : ends) end *= data.bytes;
    communicator.exchange(std::vector<Bytes>(n, reduced), parts<WritableBytes>(static_cast<std::byte*>(out), ends),
                          hash_of({name, kGather}));
  }
}

void reduce_scatter(const Communicator& communicator, const void* in, void* out, std::size_t count, Type type, Op op) {
  const DataType data = data_type(type);
  const auto n = static_cast<std::size_t>(communicator.size());
  const std::uint64_t name = communicator.next_collective(what(kScatter, count, type, op));
  if (n > 1 && carried(op, count)) {
    // An all-reduce of the whole operand: the aggregator needs all of it in any case, and returns all of the sum.
    std::vector<std::byte> sums(n * count * data.bytes);
    communicator.sum(running_program().precision().tensor(data.element, n * count * data.parts, in, sums.data()), name);
    const std::size_t bytes = count * data.bytes;
    std::memcpy(out, sums.data() + static_cast<std::size_t>(communicator.rank()) * bytes, bytes);
  } else {
    const std::vector<std::byte> reduced = reduce_own(communicator, in, equal_parts(n, count), type, op, name);
    std::copy(reduced.begin(), reduced.end(), static_cast<std::byte*>(out));
  }
}

}  // namespace jaxina::mpi
