// Feeds any datagram to the parsers of RoCEv2 packets and of frames that hold them. Headers that they accept must be
// written back as they came, and a frame that is completed again must be intact.
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "rdma_engine/wire/roce.h"
#include "rdma_engine/wire/roce_frame.h"
#include "rdma_engine/wire/roce_icrc.h"

using namespace jaxina::roce;

namespace {

// Returns whether the datagram is a packet of this service.
bool is_packet(const std::vector<std::uint8_t>& datagram, Service service, Packet& packet) {
  if (parse(datagram, packet, service) != ParseResult::kOk) return false;
  const Headers& h = packet.headers;
  const std::size_t headers = header_size(h.opcode);
  if (headers + packet.payload.size() + h.pad + kIcrcSize != datagram.size()) std::abort();
  std::uint8_t written[kMaxHeaders];
  write(h, written);
  // The reserved bits and the congestion marks are not written back.
  std::vector<std::uint8_t> read(datagram.begin(), datagram.begin() + static_cast<std::ptrdiff_t>(headers));
  read[4] = 0;
  read[8] &= 0x80;
  if (std::memcmp(read.data(), written, headers) != 0) std::abort();
  return true;
}

void try_frame(const std::vector<std::uint8_t>& bytes) {
  const std::optional<RoceFrame> frame = read_frame(bytes);
  if (!frame) return;
  const std::size_t size = kBthAt + frame->covered.size();
  std::vector<std::uint8_t> completed(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  completed.resize(size + kIcrcSize);
  if (finish_frame(completed.data(), size) != completed.size()) std::abort();
  const std::optional<RoceFrame> again = read_frame(completed);
  if (!again || !again->is_intact() || again->packet.headers != frame->packet.headers) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> datagram(data,
                                           data + size);  // memory of its own, so that a read beyond it is noticed
  Packet packet;
  is_packet(datagram, Service::kReliable, packet);
  try_frame(datagram);
  if (size < sizeof(BthBytes)) return 0;
  std::vector<std::uint8_t> framed(kBthAt);
  write_frame_headers({{10, 0, 0, 1}, {10, 0, 0, 2}, 50000, kUdpPort}, 7, framed.data());
  framed.insert(framed.end(), datagram.begin(), datagram.end());
  framed.resize(framed.size() + kIcrcSize);
  finish_frame(framed.data(), framed.size() - kIcrcSize);
  try_frame(framed);
  if (!is_packet(datagram, Service::kUnreliable, packet)) return 0;
  static BlindIcrcCheck check;
  const Flow flow{{10, 0, 0, 1}, {10, 0, 0, 2}, 50000, kUdpPort};
  const std::span<const std::uint8_t> covered(datagram.data(), size - kIcrcSize);
  const auto found = check.explain(flow, covered, packet.icrc);
  if (found && icrc(flow, *found, covered) != packet.icrc) std::abort();
  return 0;
}
