// Packets of every kind that a switch must refuse, and a stranger who sends them.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <span>
#include <vector>

#include "rdma_engine/base/counters.h"
#include "rdma_engine/net/socket_address.h"
#include "rdma_engine/net/udp_socket.h"
#include "rdma_engine/shape/job_spec.h"
#include "rdma_engine/wire/packet.h"

namespace jaxina::testing {

// Somebody who has no job, but can send datagrams to the switch.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port)
      : socket_(net::resolve("127.0.0.1", 0, ErrorCode::kSystem), {.offload = false}),
        switch_(net::resolve("127.0.0.1", port, ErrorCode::kSystem)) {}

  void send(std::span<const std::uint8_t> packet) {
    ASSERT_EQ(sendto(socket_.fd(), packet.data(), packet.size(), 0, net::as_sockaddr(switch_), switch_.size),
              static_cast<ssize_t>(packet.size()));
  }

 private:
  net::UdpSocket socket_;
  Address switch_;
};

// Returns a well-formed update, which the caller then spoils.
inline std::vector<std::uint8_t> update(const JobSpec& job, wire::Header header, std::size_t words = 8) {
  header.kind = header.kind == wire::Kind{} ? wire::Kind::kUpdate : header.kind;
  header.words = static_cast<std::uint16_t>(words);
  header.job = header.job == 0 ? job.job : header.job;
  std::vector<std::uint8_t> packet(wire::packet_size(words, header.exponents), 0x5a);
  wire::seal(header, packet.data(), packet.size());
  return packet;
}

struct Forgery {
  Counter counted_as;
  std::vector<std::uint8_t> packet;
};

inline std::vector<Forgery> forgeries(const JobSpec& job) {
  const std::uint64_t secret = job.secret;
  std::vector<Forgery> all{
      {Counter::kUnknownJob, update(job, {.job = 999, .secret = secret})},
      {Counter::kWrongSecret, update(job, {.secret = secret ^ 1})},
      {Counter::kBadWorker, update(job, {.secret = secret, .worker = static_cast<std::uint16_t>(job.shape.workers())})},
      {Counter::kBadSlot, update(job, {.secret = secret, .slot = static_cast<std::uint16_t>(job.shape.slots())})},
      {Counter::kTooLarge, update(job, {.secret = secret, .slot = 1}, job.shape.words_per_chunk() + 1)},
      {Counter::kNotAnUpdate, update(job, {.kind = wire::Kind::kResult, .secret = secret})},
      {Counter::kTruncated, {}},
      {Counter::kTruncated, std::vector<std::uint8_t>(wire::kHeaderSize - 1, 0x4a)},
      {Counter::kForeign, std::vector<std::uint8_t>(100, 0xff)},
  };
  std::vector<std::uint8_t> cut = update(job, {.secret = secret});
  cut.pop_back();
  all.push_back({Counter::kBadLength, cut});
  std::vector<std::uint8_t> flipped = update(job, {.secret = secret});
  flipped.back() ^= 1;
  all.push_back({Counter::kCorrupt, flipped});
  return all;
}

}  // namespace jaxina::testing
