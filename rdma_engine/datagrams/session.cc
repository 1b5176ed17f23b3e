#include "rdma_engine/datagrams/session.h"

namespace jaxina {

std::optional<Session::Outgoing> Session::next_packet(Nanoseconds now, std::uint8_t* packet) {
  const std::optional<Pass> pass = worker_.next_pass(now);
  if (!pass) return std::nullopt;
  worker_.fill_exponents(*pass, wire::exponents_of(packet), false);
  worker_.fill_words(*pass, wire::words_of(packet, pass->exponents), numerics::Store::kBigEndian);
  const std::size_t size = wire::packet_size(pass->words, pass->exponents);
  const wire::Transmission transmission = routes_.empty() ? wire::Transmission::kFirst : route(pass->slot).next(*pass);
  wire::seal({.kind = wire::Kind::kUpdate,
              .job = config_.job,
              .secret = config_.secret,
              .worker = config_.worker,
              .slot = pass->slot,
              .epoch = pass->epoch,
              .fingerprint = pass->fingerprint,
              .words = pass->words,
              .exponents = pass->exponents,
              .code = static_cast<std::uint8_t>(transmission),
              .format = pass->format},
             packet, size, config_.writes_crc);
  return Outgoing{*pass, size, transmission};
}

std::optional<wire::Header> Session::accept(std::span<const std::uint8_t> packet) const {
  wire::Header header;
  const bool ours = wire::parse(packet, header, config_.checksum) == wire::ParseResult::kOk &&
                    wire::is_reply(header.kind) && header.job == config_.job && header.secret == config_.secret;
  return ours ? std::optional(header) : std::nullopt;
}

bool Session::is_counted(std::span<const std::uint8_t> notice) const {
  const std::span<const std::uint8_t> seen = notice.subspan(wire::kHeaderSize);
  const std::size_t byte = config_.worker / 8u;
  return byte >= seen.size() || (seen[byte] >> (config_.worker % 8) & 1) != 0;
}

void Session::on_pending(const wire::Header& header, std::span<const std::uint8_t> packet, Nanoseconds now) {
  const bool told = (header.code & (wire::kCameDirectly | wire::kCameAlone)) != 0 && !routes_.empty();
  if (is_counted(packet)) return worker_.on_pending(header.slot, header.epoch, now, header.worker != wire::kAllWorkers);
  if (!told || header.slot >= config_.stream.shape.slots()) {
    worker_.on_not_counted(header.slot, header.epoch);
  } else if (route(header.slot).on_told(header.slot, header.epoch, (header.code & wire::kCameDirectly) != 0)) {
    worker_.on_turned_away(header.slot, header.epoch);
  }
}

Session::Reply Session::on_reply(const wire::Header& header, std::span<const std::uint8_t> packet, Nanoseconds now) {
  switch (header.kind) {
    case wire::Kind::kPending: on_pending(header, packet, now); return Reply::kPending;
    case wire::Kind::kRefused: return Reply::kRefused;
    case wire::Kind::kAbort: return Reply::kAborted;
    case wire::Kind::kUpdate:
    case wire::Kind::kCombined:
    case wire::Kind::kResult: break;
  }
  if ((header.code & wire::kOverflowed) != 0) worker_.on_overflow();
  const Result result{.slot = header.slot,
                      .epoch = header.epoch,
                      .fingerprint = header.fingerprint,
                      .words = header.words,
                      .exponents = header.exponents,
                      .word_data = wire::words_of(packet.data(), header.exponents),
                      .exponent_data = wire::exponents_of(packet.data()),
                      .order = numerics::Order::kBigEndian,
                      .format = header.format,
                      .marked = wire::is_marked(header.code)};
  if (worker_.on_result(result, now) != ResultVerdict::kAccepted) return Reply::kStale;
  const bool came_directly = (header.code & wire::kCameDirectly) != 0;
  if (!routes_.empty() && route(header.slot).on_result(header.slot, came_directly)) worker_.on_rerouted();
  return Reply::kResult;
}

Session::Reply Session::on_switch_reply(const wire::Header& header, std::span<const std::uint8_t> packet,
                                        Nanoseconds now) {
  if (header.kind == wire::Kind::kRefused && header.code == static_cast<std::uint8_t>(wire::Refusal::kUnknownJob)) {
    if (route(header.slot).on_refusal()) worker_.on_rerouted();
    worker_.on_turned_away(header.slot, header.epoch);
    return Reply::kStale;
  }
  return on_reply(header, packet, now);
}

}  // namespace jaxina
