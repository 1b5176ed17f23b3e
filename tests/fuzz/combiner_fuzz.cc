// Feeds a combining switch a sequence of packets: updates of workers, sums of groups, replies of servers, replays of
// all these, and raw bytes. Most have numbers near sensible ones. The table has fewer entries than the jobs need. One
// switch serves all inputs, and its jobs begin anew with each input.
#include <algorithm>
#include <memory>
#include <vector>

#include "tests/fuzz/combiner_books.h"
#include "tests/fuzz/input.h"

using namespace jaxina;
using namespace jaxina::fuzz;

namespace {

void draw_packet(Input& input, Packet& packet) {
  if (input.below(16) == 0) {
    packet.from = static_cast<std::uint8_t>(input.below(kHosts));
    packet.size = input.below(120);
    for (std::size_t i = 0; i < packet.size; ++i) packet.bytes[i] = input.byte();
    return;
  }
  const CombinedJobSpec& spec = kJobs[input.below(kJobCount)];
  const std::uint8_t choice = input.byte(), oddity = choice & 0x3f;
  const bool reply = choice >= 0xc0;
  const auto& child = spec.children[input.below(static_cast<std::uint32_t>(spec.children.size()))];
  const auto update = child.sender >= wire::kFirstGroup ? wire::Kind::kCombined : wire::Kind::kUpdate;
  const std::uint8_t transmission = input.byte();  // a reply to one worker, or the third transmission, is rarer
  wire::Header header{.kind = oddity == 1 ? static_cast<wire::Kind>(1 + input.below(6))
                              : reply     ? wire::Kind::kResult
                                          : update,
                      .job = oddity == 2 ? input.below(5) : spec.job,
                      .secret = oddity == 3 ? input.word() : spec.secret,
                      .worker = reply && transmission < 0xc0 ? wire::kAllWorkers : child.sender,
                      .slot = static_cast<std::uint16_t>(input.below(oddity == 5 ? 256 : spec.shape.slots())),
                      .epoch = oddity == 6 ? static_cast<std::uint32_t>(input.word()) : input.below(4),
                      .fingerprint = oddity == 7 ? input.below(3) : 1,
                      .words = static_cast<std::uint16_t>(oddity == 8 ? input.below(12) : 2),
                      .exponents = static_cast<std::uint8_t>(oddity == 9 ? input.below(6) : 1),
                      .code = static_cast<std::uint8_t>(oddity == 10           ? input.byte()
                                                        : transmission >= 0xe0 ? transmission % 3
                                                                               : 0)};
  // Other formats, often with the numbers of words and exponents that passes of 32-bit words have.
  if (oddity >= 13 && oddity <= 20) {
    header.format = static_cast<wire::Format>(input.below(4));
    if (oddity >= 18) header.words = static_cast<std::uint16_t>(input.below(12));
    if (oddity >= 18) header.exponents = static_cast<std::uint8_t>(input.below(10));
  }
  if (oddity >= 21 && oddity <= 24) header.code |= wire::kMarked;
  if (oddity == 4) header.worker = static_cast<std::uint16_t>(input.below(2) * wire::kFirstGroup + input.below(5));
  packet.size = wire::packet_size(header.words, header.exponents);
  for (std::size_t i = wire::kHeaderSize; i < packet.size; ++i) packet.bytes[i] = input.byte();
  wire::seal(header, packet.bytes.data(), packet.size);
  if (oddity == 11) packet.bytes[input.below(static_cast<std::uint32_t>(packet.size))] ^= input.byte();
  if (oddity == 12) packet.size = input.below(static_cast<std::uint32_t>(packet.size) + 8);
  packet.from = reply ? spec.upstream[header.slot % spec.upstream.size()].bytes[0]
                      : static_cast<std::uint8_t>(child.sender % kHosts);
  if (oddity >= 0x38) packet.from = static_cast<std::uint8_t>(input.below(kHosts));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Books books;
  static std::vector<Packet> drawn;
  // Every packet ends where this memory ends, so that the address sanitizer notices a read beyond it.
  static const std::unique_ptr<std::uint8_t[]> arrived(new std::uint8_t[kMaxPacket]);

  Input input(data, size);
  drawn.clear();
  books.begin();
  while (!input.empty()) {
    const std::uint32_t choice = input.below(32);
    if (choice == 0) books.register_again(input.below(kJobCount));
    else if (choice == 1) books.overflow();
    else if (choice == 2) books.wait(input.below(2 * kLifetime));
    if (choice <= 2) continue;
    if (choice <= 8 && !drawn.empty()) {
      const Packet replayed = drawn[input.below(static_cast<std::uint32_t>(drawn.size()))];
      drawn.push_back(replayed);
      if (choice <= 4) drawn.back().from = static_cast<std::uint8_t>(input.below(kHosts));
    } else {
      draw_packet(input, drawn.emplace_back());
    }
    const Packet& packet = drawn.back();
    std::uint8_t* place = arrived.get() + kMaxPacket - packet.size;
    std::copy_n(packet.bytes.begin(), packet.size, place);
    books.deliver({place, packet.size}, packet.from);
  }
  books.end();
  return 0;
}
