// Device: an RDMA device opened for RoCEv2 over IPv4, and the registration of memory that it may use.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "rdma_engine/errors.h"
#include "rdma_engine/transport/transport_config.h"
#include "rdma_engine/worker/tensor_device.h"

namespace jaxina::verbs {

template <auto Destroy>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
template <typename T, auto Destroy>
using Handle = std::unique_ptr<T, Deleter<Destroy>>;

using Context = Handle<ibv_context, ibv_close_device>;
using ProtectionDomain = Handle<ibv_pd, ibv_dealloc_pd>;
using MemoryRegion = Handle<ibv_mr, ibv_dereg_mr>;

// The object that a call has made. Throws Error(kSystem) if it has made none.
template <typename T>
T* checked(T* object, const char* what) {
  if (object == nullptr) {
    throw Error(ErrorCode::kSystem, std::string(what) + " failed: " + std::strerror(errno));
  }
  return object;
}

struct Device {
  Context context;
  ProtectionDomain domain;
  std::string name;
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;
  std::string address;  // the GID's IPv4 address
  ibv_mtu mtu = IBV_MTU_1024;
  bool retries_forever = false;  // it takes 7 retries for no limit, as Soft-RoCE does
};

// Opens this device, at a port that is up and has a RoCEv2 GID of an IPv4 address: of this one, or of any if it is
// empty. Throws Error(kInvalidArgument) if there is none. The message says what stands against each device, port and
// GID that was looked at.
Device open_device(const RdmaDevice& wanted, const std::string& address);

// Moves a new queue pair, or one that was reset, to INIT. Returns an errno, or 0.
int to_init(const Device& device, ibv_qp* pair);
// The way to a host, by its numeric IPv4 address. Throws Error(kInvalidArgument).
ibv_ah_attr route_to(const Device& device, const std::string& address);

std::size_t bytes_of(ibv_mtu mtu);
ibv_mtu mtu_of(std::size_t bytes);  // the largest MTU that is not above `bytes`

// Lets the NIC read this host memory and the peer write it. Throws Error(kSystem).
MemoryRegion register_host(const Device& device, std::span<std::uint8_t> memory);
// Lets the NIC read a GPU's memory: as a dma-buf if there is one, otherwise by its address, which needs the kernel
// module nvidia-peermem. Throws Error(kSystem).
MemoryRegion register_exported(const Device& device, const ExportedMemory& memory);

}  // namespace jaxina::verbs
