// A transparent switch with one ring, and the frames that its workers send.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "rdma_engine/netreduce/transparent_switch.h"
#include "rdma_engine/wire/psn.h"

namespace jaxina::netreduce {

using Bytes = std::vector<std::uint8_t>;

// One message of a pass: words (the last two are the check), then exponents, padded.
struct Message {
  std::uint16_t slot = 0;
  std::uint32_t epoch = 0;
  Bytes words = Bytes(16), exponents = {};
};

// What a frame may have besides.
struct Options {
  bool asks = false;
  std::uint8_t traffic_class = 0, congestion = 0;
  std::uint16_t id = 0;
  std::uint32_t immediate = 5;  // as the worker sends it: roce::RingKind::kAsSent
};

// Passes of up to 6 words, with a check, and 3 exponents: 3 slots, packets of 16 bytes.
class Ring : public ::testing::Test, protected FrameOutput {
 protected:
  static constexpr std::uint32_t kWorkers = 3, kFirstPsn = 0xfffffe;  // the third packet's number is 0
  static constexpr std::size_t kMtu = 16;

  Ring() { job_ = switch_.add(spec()); }

  static RingSpec spec() {
    RingSpec spec{.job = 7,
                  .shape = JobShape({.devices = kWorkers,
                                     .workers = kWorkers,
                                     .slots = 3,
                                     .block_size = 2,
                                     .blocks_per_chunk = 3,
                                     .widest_element = 1}),
                  .mtu = kMtu,
                  .members = {}};
    for (std::uint8_t w = 0; w < kWorkers; ++w) {
      spec.members.push_back({.source = {10, 0, 0, w},
                              .destination = {10, 0, 0, static_cast<std::uint8_t>((w + 1) % kWorkers)},
                              .qpn = 100u + w,
                              .first_psn = kFirstPsn,
                              .rkey = 0x55u + w,
                              .memory = 0x10000});
    }
    return spec;
  }

  // The `index`-th packet of a message whose first packet is the connection's `first`-th.
  Bytes frame(std::uint32_t worker, std::uint64_t first, const Message& message, std::size_t index,
              const Options& options = {}) const {
    const RingMember member = spec().members[worker];
    const roce::MessageLayout layout = spec().layout();
    Bytes payload = message.words;
    payload.insert(payload.end(), message.exponents.begin(), message.exponents.end());
    const std::size_t packets = roce::packets_of(payload.size(), kMtu), offset = index * kMtu;
    const std::size_t size = std::min(kMtu, payload.size() - offset);
    const bool begins = index == 0, ends = index + 1 == packets;
    roce::Headers h{.opcode = roce::write_opcode(roce::Service::kReliable, begins, ends, true),
                    .qpn = member.qpn,
                    .acknowledge = options.asks,
                    .psn = roce::psn_after(kFirstPsn, first + index)};
    if (begins) {
      h.address = member.memory + layout.result_place(message.slot, message.epoch) + layout.exponents_in_place() -
                  message.words.size();
      h.rkey = member.rkey;
      h.length = static_cast<std::uint32_t>(payload.size());
    }
    if (ends) h.immediate = options.immediate;
    return frame_of(member, h, std::span(payload).subspan(offset, size), options);
  }
  static Bytes frame_of(const RingMember& member, const roce::Headers& h, std::span<const std::uint8_t> payload,
                        const Options& options) {
    Bytes bytes(roce::kMaxFrameHeaders + payload.size() + roce::kIcrcSize);
    roce::write_frame_headers({member.source, member.destination, 50'000, roce::kUdpPort}, options.id, bytes.data());
    bytes[15] = options.traffic_class;
    roce::write(h, &bytes[roce::kBthAt]);
    bytes[roce::kBthAt + 4] = options.congestion;
    const std::size_t headers = roce::kBthAt + roce::header_size(h.opcode);
    std::copy(payload.begin(), payload.end(), bytes.begin() + static_cast<std::ptrdiff_t>(headers));
    bytes.resize(roce::finish_frame(bytes.data(), headers + payload.size()));
    return bytes;
  }

  // Each connection's first packet: a pass of all workers in slot 2, so that the other slots have sent nothing.
  static constexpr std::uint16_t kFirstSlot = 2;
  void begin() {
    for (std::uint32_t w = 0; w < kWorkers; ++w) on(frame(w, 0, {.slot = kFirstSlot}, 0));
  }

  // The frames that leave when this one comes, and where.
  std::vector<Bytes> on(const Bytes& frame, std::uint16_t egress = 1) {
    out_.clear();
    switch_.on_frame(frame, egress, *this);
    return out_;
  }
  void send(std::uint16_t egress, std::span<const std::uint8_t> frame) override {
    out_.emplace_back(frame.begin(), frame.end());
    egress_.push_back(egress);
  }
  // A frame that left, which must be intact.
  static roce::RoceFrame read(const Bytes& frame) {
    const auto read = roce::read_frame(frame);
    if (!read || !read->is_intact()) ADD_FAILURE() << "a damaged frame left the switch";
    return read.value_or(roce::RoceFrame{});
  }
  static std::uint32_t psn_of(const Bytes& frame) { return read(frame).packet.headers.psn; }
  static Bytes payload_of(const Bytes& frame) {
    const roce::RoceFrame taken = read(frame);
    return {taken.packet.payload.begin(), taken.packet.payload.end()};
  }
  static Bytes words(std::initializer_list<std::uint32_t> values) {
    Bytes bytes;
    for (const std::uint32_t value : values) {
      for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
    }
    return bytes;
  }

  TransparentSwitch switch_;
  RingJob* job_ = nullptr;
  std::vector<Bytes> out_;
  std::vector<std::uint16_t> egress_;
};

}  // namespace jaxina::netreduce
