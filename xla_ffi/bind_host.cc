// Binds what this host has: network interfaces, encryption and RDMA devices.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "rdma_engine/encryption/availability.h"
#include "rdma_engine/net/interfaces.h"
#include "rdma_engine/transport/verbs/availability.h"
#include "xla_ffi/bindings.h"
#include "xla_ffi/device_fields.h"

namespace jaxina {

namespace nb = nanobind;
using namespace nb::literals;

void bind_host(nb::module_& m) {
  m.def(
      "interface_addresses",
      [] {
        nb::list result;
        for (const net::InterfaceAddress& one : net::interface_addresses()) {
          result.append(nb::make_tuple(one.interface, one.address, one.prefix_length, one.mtu, one.up, one.loopback));
        }
        return result;
      },
      "The addresses of this host's network interfaces, without IPv6's link-local ones.\n\n"
      "Returns:\n"
      "  A list of (interface, address, prefix_length, mtu, up, loopback). address: numeric. mtu: bytes. up: whether the "
      "interface is up and has a link.");
  m.def("encryption_availability", &encryption::availability,
        "Names the library with which packets would be encrypted, or says what is missing.");
  m.def("check_encryption", &encryption::check_available,
        "Checks that this host can encrypt packets.\n\n"
        "Raises:\n"
        "  InvalidArgumentError: it cannot. The message says why.");
  m.def("verbs_availability", &verbs::availability,
        "Describes the RDMA devices that the verbs transport could use, or what it lacks, in words.");
  m.def(
      "check_rdma_device", [](const DeviceFields& device) { verbs::check_device(device_of(device)); }, "device"_a,
      nb::call_guard<nb::gil_scoped_release>(),
      "Checks that this host has an RDMA device, and can use it now.\n\n"
      "Args:\n"
      "  device: as for GroupConfig.use_verbs().\n\n"
      "Raises:\n"
      "  InvalidArgumentError: it cannot. The message says why.");
}

}  // namespace jaxina
