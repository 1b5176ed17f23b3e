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
  m.attr("HEADER_BYTES") = wire::kHeaderSize;

  nb::class_<JobShape>(m, "JobShape",
                       "Everything on which a job's memory and packets depend. It is made once; every limit holds.")
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
          "devices: of the group, in all processes. workers: its processes. slots: the pool's. block_size: words, and "
          "for the "
          "one-word types elements, that share an exponent. whole_chunks: a chunk is always filled up. Raises "
          "TooManyWorkers or "
          "InvalidArgument.")
      .def_prop_ro("devices", &JobShape::devices)
      .def_prop_ro("workers", &JobShape::workers)
      .def_prop_ro("slots", &JobShape::slots)
      .def_prop_ro("block_size", &JobShape::block_size)
      .def_prop_ro("blocks_per_chunk", &JobShape::blocks_per_chunk)
      .def_prop_ro("whole_chunks", &JobShape::whole_chunks)
      .def_prop_ro(
          "pool_bytes", [](const JobShape& s) { return DatagramJob::bytes_for({.shape = s}, Shard{}); },
          "Memory that the job's slots take at a switch.")
      .def(nb::self == nb::self)
      .def("__hash__", [](const JobShape& s) { return nb::hash(nb::cast(text_of(s))); })
      .def("__repr__", &text_of);
}

}  // namespace jaxina
