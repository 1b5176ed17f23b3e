#include "rdma_engine/transport/verbs/device.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "rdma_engine/errors.h"

namespace jaxina::verbs {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

// The IPv4 address in a GID, which RoCEv2 encodes as ::ffff:a.b.c.d.
std::optional<std::string> ipv4_of(const ibv_gid& gid) {
  static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(gid.raw, kMapped, sizeof(kMapped)) != 0) return std::nullopt;
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, gid.raw + sizeof(kMapped), text, sizeof(text));
}

// Looks for a port and a GID that suit, and notes why others do not.
class Search {
 public:
  Search(const RdmaDevice& wanted, const std::string& address) : wanted_(wanted), address_(address) {}

  // Fills in the device's fields. Returns false if the device does not suit.
  bool suits(Device& device) {
    ibv_device_attr attributes{};
    if (ibv_query_device(device.context.get(), &attributes) != 0) return no(device.name + " does not answer");
    device.retries_forever = attributes.vendor_id == kSoftRoce;
    const std::uint8_t ports = attributes.phys_port_cnt;
    if (wanted_.port && (*wanted_.port == 0 || *wanted_.port > ports)) {
      return no(device.name + " has no port " + std::to_string(*wanted_.port) + ": its ports are 1 to " +
                std::to_string(ports));
    }
    for (int port = wanted_.port.value_or(1); port <= wanted_.port.value_or(ports); ++port) {
      device.port = static_cast<std::uint8_t>(port);
      if (port_suits(device)) return true;
    }
    return false;
  }
  bool no(const std::string& reason) {
    reasons_ += (reasons_.empty() ? "" : "; ") + reason;
    return false;
  }
  const std::string& reasons() const { return reasons_; }

 private:
  static constexpr std::uint32_t kSoftRoce = 0xffffff;  // a vendor's number

  bool port_suits(Device& device) {
    const std::string name = device.name + " port " + std::to_string(device.port);
    ibv_port_attr state{};
    if (ibv_query_port(device.context.get(), device.port, &state) != 0) return no(name + " does not answer");
    if (state.state != IBV_PORT_ACTIVE) return no(name + " is down");
    device.mtu = state.active_mtu;
    std::string seen;
    for (int index = 0; index < state.gid_tbl_len && index < 256; ++index) {
      ibv_gid_entry entry{};
      if (ibv_query_gid_ex(device.context.get(), device.port, static_cast<std::uint32_t>(index), &entry, 0) != 0) {
        continue;
      }
      const std::optional<std::string> ip = ipv4_of(entry.gid);
      if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !ip) continue;
      seen += (seen.empty() ? "" : ", ") + std::to_string(index) + " (" + *ip + ")";
      if (wanted_.gid_index && index != *wanted_.gid_index) continue;
      if (!address_.empty() && *ip != address_) continue;
      device.gid_index = static_cast<std::uint8_t>(index);
      device.address = *ip;
      return true;
    }
    if (seen.empty()) return no(name + " has no RoCEv2 GID of an IPv4 address: give its interface one");
    return no(name + " has no such GID: its RoCEv2 GIDs of IPv4 addresses have the indexes " + seen);
  }

  const RdmaDevice& wanted_;
  const std::string& address_;
  std::string reasons_;
};

MemoryRegion registered(ibv_mr* region, const std::string& what) {
  if (region == nullptr) {
    const int error = errno;
    throw Error(ErrorCode::kSystem, "registering " + what + " for RDMA failed: " + std::strerror(error) +
                                        (error == ENOMEM ? "; raise the limit of locked memory (ulimit -l)" : ""));
  }
  return MemoryRegion(region);
}

}  // namespace

Device open_device(const RdmaDevice& wanted, const std::string& address) {
  int count = 0;
  const Handle<ibv_device*, ibv_free_device_list> list(ibv_get_device_list(&count));
  std::string names;
  Search search(wanted, address);
  for (int i = 0; i < count; ++i) {
    Device device;
    device.name = ibv_get_device_name(list.get()[i]);
    names += (names.empty() ? "" : ", ") + device.name;
    if (!wanted.name.empty() && device.name != wanted.name) continue;
    device.context.reset(ibv_open_device(list.get()[i]));
    if (!device.context) {
      search.no(device.name + " cannot be opened: " + std::strerror(errno));
      continue;
    }
    if (!search.suits(device)) continue;
    device.domain.reset(ibv_alloc_pd(device.context.get()));
    if (!device.domain) throw Error(ErrorCode::kSystem, "allocating a protection domain on " + device.name + " failed");
    return device;
  }
  if (!search.reasons().empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no RDMA device can be used: " + search.reasons());
  }
  throw Error(ErrorCode::kInvalidArgument,
              (wanted.name.empty() ? std::string("no RDMA device is here") : "there is no RDMA device " + wanted.name) +
                  "; this host has " + (names.empty() ? "none" : names));
}

std::size_t bytes_of(ibv_mtu mtu) { return std::size_t{128} << mtu; }

ibv_mtu mtu_of(std::size_t bytes) {
  ibv_mtu mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && bytes_of(static_cast<ibv_mtu>(mtu + 1)) <= bytes) mtu = static_cast<ibv_mtu>(mtu + 1);
  return mtu;
}

MemoryRegion register_host(const Device& device, std::span<std::uint8_t> memory) {
  return registered(ibv_reg_mr(device.domain.get(), memory.data(), memory.size(), kAccess), "memory");
}

MemoryRegion register_exported(const Device& device, const ExportedMemory& memory) {
  const auto address = reinterpret_cast<std::uint64_t>(memory.memory.get());
  ibv_mr* region =
      memory.dmabuf < 0
          ? ibv_reg_mr(device.domain.get(), memory.memory.get(), memory.bytes, IBV_ACCESS_LOCAL_WRITE)
          : ibv_reg_dmabuf_mr(device.domain.get(), 0, memory.bytes, address, memory.dmabuf, IBV_ACCESS_LOCAL_WRITE);
  return registered(region, "a GPU's memory");
}

int to_init(const Device& device, ibv_qp* pair) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device.port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  return ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

ibv_ah_attr route_to(const Device& device, const std::string& address) {
  ibv_ah_attr route{};
  route.is_global = 1;
  route.port_num = device.port;
  route.grh.sgid_index = device.gid_index;
  route.grh.hop_limit = 64;
  route.grh.dgid.raw[10] = route.grh.dgid.raw[11] = 0xff;
  if (inet_pton(AF_INET, address.c_str(), &route.grh.dgid.raw[12]) != 1) {
    throw Error(ErrorCode::kInvalidArgument, address + " is not a numeric IPv4 address");
  }
  return route;
}

}  // namespace jaxina::verbs
