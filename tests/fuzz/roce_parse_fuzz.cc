// Feeds any datagram to the parser of RoCEv2 packets. Headers that it accepts must be written back as they came.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rdma_engine/wire/roce.h"
#include "rdma_engine/wire/roce_icrc.h"

using namespace jaxina::roce;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> datagram(data,
                                           data + size);  // memory of its own, so that a read beyond it is noticed
  Packet packet;
  if (parse(datagram, packet) != ParseResult::kOk) return 0;
  const Headers& h = packet.headers;
  const std::size_t headers = header_size(h.opcode);
  if (headers + packet.payload.size() + h.pad + kIcrcSize != size) std::abort();
  std::uint8_t written[kMaxHeaders];
  write(h, written);
  // The reserved bits and the congestion marks are not written back.
  std::vector<std::uint8_t> read(datagram.begin(), datagram.begin() + static_cast<std::ptrdiff_t>(headers));
  read[4] = 0;
  read[8] &= 0x80;
  if (std::memcmp(read.data(), written, headers) != 0) std::abort();
  static BlindIcrcCheck check;
  const Flow flow{{10, 0, 0, 1}, {10, 0, 0, 2}, 50000, kUdpPort};
  const std::span<const std::uint8_t> covered(datagram.data(), size - kIcrcSize);
  const auto found = check.explain(flow, covered, packet.icrc);
  if (found && icrc(flow, *found, covered) != packet.icrc) std::abort();
  return 0;
}
