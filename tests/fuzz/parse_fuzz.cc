// Feeds any bytes to wire::parse(). It must read nothing beyond them, and must accept only what seal() writes.
#include <algorithm>
#include <vector>

#include "rdma_engine/wire/packet.h"
#include "tests/fuzz/input.h"

using namespace jaxina;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // The first byte says whether to correct the checksum. By chance it would hardly ever be right.
  const bool repair = data[0] & 1;
  std::vector<std::uint8_t> packet(data + 1, data + size);
  wire::Header header;
  const wire::ParseResult first = wire::parse(packet, header);
  if (first == wire::ParseResult::kTruncated) fuzz::require(packet.size() < wire::kHeaderSize);
  if (first == wire::ParseResult::kCorrupt && repair) {
    wire::seal(header, packet.data(), packet.size());
    wire::Header again;
    fuzz::require(wire::parse(packet, again) == wire::ParseResult::kOk);
    fuzz::require(again.kind == header.kind && again.job == header.job && again.secret == header.secret &&
                  again.worker == header.worker && again.slot == header.slot && again.epoch == header.epoch &&
                  again.fingerprint == header.fingerprint && again.words == header.words &&
                  again.exponents == header.exponents && again.code == header.code && again.format == header.format);
  } else if (first == wire::ParseResult::kOk) {
    std::vector<std::uint8_t> copy = packet;
    wire::seal(header, copy.data(), copy.size());
    wire::Header again;
    fuzz::require(wire::parse(copy, again) == wire::ParseResult::kOk);
  }
  return 0;
}
