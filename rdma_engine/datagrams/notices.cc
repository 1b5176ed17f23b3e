#include "rdma_engine/datagrams/notices.h"

#include <cstring>
#include <string_view>

#include "rdma_engine/base/utf8.h"

namespace jaxina {
namespace {

// The header of an answer to `update`. It names the same pass and carries no words.
wire::Header answer_to(const wire::Header& update, wire::Kind kind) {
  wire::Header answer = update;
  answer.kind = kind;
  answer.words = 0;
  answer.exponents = 0;
  return answer;
}

void seal(const wire::Header& header, std::size_t payload, Notice& notice) {
  notice.size = wire::kHeaderSize + payload;
  wire::seal(header, notice.bytes.data(), notice.size);
}

}  // namespace

Notice refused_notice(const wire::Header& update, wire::Refusal refusal) {
  Notice notice;
  wire::Header header = answer_to(update, wire::Kind::kRefused);
  header.code = static_cast<std::uint8_t>(refusal);
  seal(header, 0, notice);
  return notice;
}

Notice pending_notice(const wire::Header& update, const WorkerSet& seen, std::uint32_t workers, std::uint8_t code) {
  Notice notice;
  wire::Header header = answer_to(update, wire::Kind::kPending);
  header.code = code;
  const std::size_t bytes = (workers + 7) / 8;
  std::uint8_t* bitmap = &notice.bytes[wire::kHeaderSize];
  for (std::size_t i = 0; i < bytes; ++i) bitmap[i] = static_cast<std::uint8_t>(seen[i / 8] >> (8 * (i % 8)));
  seal(header, bytes, notice);
  return notice;
}

Notice aborted_notice(std::uint32_t job, std::uint64_t secret, std::uint16_t slot, const Status& reason) {
  Notice notice;
  const std::string_view sentence = start_of(reason.message, kMaxReason);
  std::memcpy(&notice.bytes[wire::kHeaderSize], sentence.data(), sentence.size());
  wire::Header header;
  header.kind = wire::Kind::kAbort;
  header.job = job;
  header.secret = secret;
  header.worker = wire::kAllWorkers;
  header.slot = slot;
  header.code = static_cast<std::uint8_t>(reason.code);
  seal(header, sentence.size(), notice);
  return notice;
}

}  // namespace jaxina
