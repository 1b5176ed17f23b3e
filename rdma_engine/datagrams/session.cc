#include "rdma_engine/datagrams/session.h"

namespace jaxina {

std::optional<Session::Outgoing> Session::next_packet(Nanoseconds now, std::uint8_t* packet) {
  const std::optional<Pass> pass = worker_.next_pass(now);
  if (!pass) return std::nullopt;
  worker_.fill_exponents(*pass, wire::exponents_of(packet), false);
  worker_.fill_words(*pass, wire::words_of(packet, pass->exponents), numerics::Store::kBigEndian);
  const std::size_t size = wire::packet_size(pass->words, pass->exponents);
  wire::seal({.kind = wire::Kind::kUpdate,
              .job = config_.job,
              .secret = config_.secret,
              .worker = config_.worker,
              .slot = pass->slot,
              .epoch = pass->epoch,
              .fingerprint = pass->fingerprint,
              .words = pass->words,
              .exponents = pass->exponents,
              .code = 0},
             packet, size);
  return Outgoing{*pass, size};
}

std::optional<wire::Header> Session::accept(std::span<const std::uint8_t> packet) const {
  wire::Header header;
  const bool ours = wire::parse(packet, header, config_.checksum) == wire::ParseResult::kOk &&
                    header.kind != wire::Kind::kUpdate && header.job == config_.job && header.secret == config_.secret;
  return ours ? std::optional(header) : std::nullopt;
}

Session::Reply Session::on_reply(const wire::Header& header, const std::uint8_t* packet, Nanoseconds now) {
  switch (header.kind) {
    case wire::Kind::kPending: worker_.on_pending(header.slot, header.epoch, now); return Reply::kPending;
    case wire::Kind::kRefused: return Reply::kRefused;
    case wire::Kind::kAbort: return Reply::kAborted;
    case wire::Kind::kUpdate:
    case wire::Kind::kResult: break;
  }
  if (header.code == wire::kOverflowed) worker_.on_overflow();
  const Result result{.slot = header.slot,
                      .epoch = header.epoch,
                      .fingerprint = header.fingerprint,
                      .words = header.words,
                      .exponents = header.exponents,
                      .word_data = wire::words_of(packet, header.exponents),
                      .exponent_data = wire::exponents_of(packet),
                      .order = numerics::Order::kBigEndian};
  return worker_.on_result(result, now) == ResultVerdict::kAccepted ? Reply::kResult : Reply::kStale;
}

}  // namespace jaxina
