// Binds JobShape and the limits that it checks.
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include "rdma_engine/datagrams/datagram_job.h"
#include "rdma_engine/shape/job_shape.h"
#include "xla_ffi/bindings.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::string text_of(const JobShape& s) {
  return "JobShape(devices=" + std::to_string(s.devices()) + ", workers=" + std::to_string(s.workers()) +
         ", slots=" + std::to_string(s.slots()) + ", block_size=" + std::to_string(s.block_size()) +
         ", blocks_per_chunk=" + std::to_string(s.blocks_per_chunk()) +
         (s.whole_chunks() ? ", whole_chunks=True)" : ")");
}

}  // namespace

void bind_shape(nb::module_& m) {
  m.attr("MAX_WORKERS") = numerics::kMaxWorkers;
  m.attr("MAX_SLOTS") = kMaxSlots;
  m.attr("MIN_BLOCK_SIZE") = numerics::kMinBlockSize;
  m.attr("MAX_BLOCK_SIZE") = numerics::kMaxBlockSize;
  m.attr("MAX_BLOCKS_PER_CHUNK") = wire::kMaxBlocksPerChunk;
  m.attr("MAX_GROUPS") = wire::kMaxGroups;
  m.attr("HEADER_BYTES") = wire::kHeaderSize;
  m.attr("JOB_KEY_BYTES") = kJobKeyBytes;

  nb::class_<JobShape>(
      m, "JobShape",
      "Everything on which a job's memory and packets depend. A JobShape can only be made if every limit "
      "holds. It is immutable, hashable and comparable.")
      .def(
          "__init__",
          [](JobShape* self, std::uint32_t devices, std::uint32_t workers, std::uint32_t slots,
             std::uint32_t block_size, std::uint32_t blocks_per_chunk, bool whole_chunks) {
            new (self) JobShape({.devices = devices,
                                 .workers = workers,
                                 .slots = slots,
                                 .block_size = block_size,
                                 .blocks_per_chunk = blocks_per_chunk,
                                 .whole_chunks = whole_chunks});
          },
          nb::kw_only(), "devices"_a, "workers"_a, "slots"_a, "block_size"_a, "blocks_per_chunk"_a,
          "whole_chunks"_a = false,
          "Args:\n"
          "  devices: n, the group's devices in all processes.\n"
          "  workers: the job's workers, that is the group's processes.\n"
          "  slots: the slots in the pool, at most MAX_SLOTS.\n"
          "  block_size: words that share an exponent, MIN_BLOCK_SIZE to MAX_BLOCK_SIZE. For types of one word these "
          "are "
          "elements.\n"
          "  blocks_per_chunk: blocks in a chunk, at most MAX_BLOCKS_PER_CHUNK.\n"
          "  whole_chunks: whether the last chunk is filled with zeros, for aggregators that add a fixed number of "
          "words.\n\n"
          "Raises:\n"
          "  TooManyWorkersError: if devices or workers is above MAX_WORKERS.\n"
          "  InvalidArgumentError: if another limit does not hold; the message names it and the remedy.")
      .def_prop_ro("devices", &JobShape::devices, "n, the group's devices in all processes.")
      .def_prop_ro("workers", &JobShape::workers, "The job's workers.")
      .def_prop_ro("slots", &JobShape::slots, "The slots in the pool.")
      .def_prop_ro("block_size", &JobShape::block_size, "Words in a block.")
      .def_prop_ro("blocks_per_chunk", &JobShape::blocks_per_chunk, "Blocks in a chunk.")
      .def_prop_ro("whole_chunks", &JobShape::whole_chunks, "Whether the last chunk is filled with zeros.")
      .def_prop_ro(
          "pool_bytes", [](const JobShape& s) { return DatagramJob::bytes_for({.shape = s}, Shard{}); },
          "Bytes that the job's slots take at a switch.")
      .def(nb::self == nb::self)
      .def("__hash__", [](const JobShape& s) { return nb::hash(nb::cast(text_of(s))); })
      .def("__repr__", &text_of);
}

}  // namespace jaxina
