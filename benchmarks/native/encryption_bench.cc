// Measures what encrypting and decrypting a packet takes, beside its CRC-32 and a copy: encryption_bench [ROUNDS]
// Prints nanoseconds per packet, medians of the rounds, for packets of 1, 4 and 8 blocks of 256 elements. With
// LD_LIBRARY_PATH it takes another libcrypto.so.3 than the host's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rdma_engine/encryption/availability.h"
#include "rdma_engine/encryption/encrypted_end.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::uint8_t>;

// Of a round: few, so that most rounds end before another program gets the processor.
constexpr std::size_t kPackets = 16;

// The median over `rounds` of the time that work(packet) takes on average, in ns. prepare() is not measured.
template <typename Prepare, typename Work>
double median(int rounds, Prepare prepare, Work work) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    prepare();
    const Clock::time_point start = Clock::now();
    for (std::size_t packet = 0; packet < kPackets; ++packet) work(packet);
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kPackets);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

void check(bool ok) {
  if (!ok) std::fprintf(stderr, "a packet was not decrypted\n"), std::exit(1);
}

void measure(std::size_t blocks, int rounds) {
  const std::size_t words = 256 * blocks, size = wire::packet_size(words, blocks);
  const wire::Header header{
      .job = 1, .words = static_cast<std::uint16_t>(words), .exponents = static_cast<std::uint8_t>(blocks)};
  Bytes packet(size, 0x5a);
  wire::seal(header, packet.data(), size);
  const JobKey key{.bytes = {1, 2, 3}};
  encryption::EncryptedEnd worker(key, 1, encryption::Role::kWorker, 0, 1);
  encryption::EncryptedEnd aggregator(key, 1, encryption::Role::kAggregator, 0, 1);
  std::vector<Bytes> rooms(kPackets, Bytes(size + encryption::kOverhead));
  const auto nothing = [] {};
  const auto encrypt = [&](std::size_t i) { worker.encrypt(packet, rooms[i].data()); };
  const double copied =
      median(rounds, nothing, [&](std::size_t i) { std::memcpy(rooms[i].data(), packet.data(), size); });
  const double crc = median(rounds, nothing, [&](std::size_t) { wire::seal(header, packet.data(), size); });
  const double encrypted = median(rounds, nothing, encrypt);
  const double decrypted = median(
      rounds,
      [&] {
        for (std::size_t i = 0; i < kPackets; ++i) encrypt(i);
      },
      [&](std::size_t i) { check(aggregator.decrypt(rooms[i]).has_value()); });
  std::printf("%6zu bytes: copy %5.0f ns, header and CRC-32 %5.0f ns, encrypt %5.0f ns, decrypt %5.0f ns\n", size,
              copied, crc, encrypted, decrypted);
}

}  // namespace
}  // namespace jaxina

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1001;
  std::printf("%s\n", jaxina::encryption::availability().c_str());
  for (const std::size_t blocks : {1u, 4u, 8u}) jaxina::measure(blocks, rounds);
  return 0;
}
