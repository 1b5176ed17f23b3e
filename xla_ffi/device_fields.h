// Converts the name of an RDMA device to and from Python, where it is a tuple (name, port, GID index).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "rdma_engine/transport/transport_config.h"

namespace jaxina {

using DeviceFields = std::tuple<std::string, std::optional<std::uint8_t>, std::optional<std::uint8_t>>;

inline RdmaDevice device_of(const DeviceFields& fields) {
  const auto& [name, port, gid_index] = fields;
  return {name, port, gid_index};
}

inline DeviceFields fields_of(const RdmaDevice& device) { return {device.name, device.port, device.gid_index}; }

}  // namespace jaxina
