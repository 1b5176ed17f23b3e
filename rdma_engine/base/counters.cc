#include "rdma_engine/base/counters.h"

namespace jaxina {

std::string_view to_string(Counter counter) {
  switch (counter) {
    case Counter::kCollectives: return "collectives";
    case Counter::kElements: return "elements";
    case Counter::kPacketsSent: return "packets_sent";
    case Counter::kPacketsReceived: return "packets_received";
    case Counter::kBytesSent: return "bytes_sent";
    case Counter::kBytesReceived: return "bytes_received";
    case Counter::kBytesOf32Bits: return "bytes_of_32_bits";
    case Counter::kBytesOf16Bits: return "bytes_of_16_bits";
    case Counter::kBytesOf8Bits: return "bytes_of_8_bits";
    case Counter::kRetransmissions: return "retransmissions";
    case Counter::kWindowDecreases: return "window_decreases";
    case Counter::kPacketsDropped: return "packets_dropped";
    case Counter::kPacketsUnsent: return "packets_unsent";
    case Counter::kPacketsUnanswerable: return "packets_unanswerable";
    case Counter::kPacketsRejected: return "packets_rejected";
    case Counter::kSocketOverflows: return "socket_overflows";
    case Counter::kStagedWords: return "staged_words";
    case Counter::kUpdates: return "updates";
    case Counter::kResults: return "results";
    case Counter::kDuplicates: return "duplicates";
    case Counter::kOverlaps: return "overlaps";
    case Counter::kClaims: return "claims";
    case Counter::kJoins: return "joins";
    case Counter::kCombined: return "combined";
    case Counter::kAbsorbed: return "absorbed";
    case Counter::kCollisions: return "collisions";
    case Counter::kPassedOn: return "passed_on";
    case Counter::kExpired: return "expired";
    case Counter::kReleased: return "released";
    case Counter::kReplies: return "replies";
    case Counter::kMarked: return "marked";
    case Counter::kTruncated: return "truncated";
    case Counter::kForeign: return "foreign";
    case Counter::kBadLength: return "bad_length";
    case Counter::kCorrupt: return "corrupt";
    case Counter::kNotAnUpdate: return "not_an_update";
    case Counter::kUnknownJob: return "unknown_job";
    case Counter::kNotEncrypted: return "not_encrypted";
    case Counter::kNotAuthentic: return "not_authentic";
    case Counter::kWrongSecret: return "wrong_secret";
    case Counter::kBadWorker: return "bad_worker";
    case Counter::kBadSlot: return "bad_slot";
    case Counter::kTooLarge: return "too_large";
    case Counter::kStale: return "stale";
    case Counter::kAhead: return "ahead";
    case Counter::kMismatch: return "mismatch";
    case Counter::kAborted: return "aborted";
    case Counter::kRdmaMalformed: return "rdma_malformed";
    case Counter::kRdmaWrongIcrc: return "rdma_wrong_icrc";
    case Counter::kRdmaUnknownQueuePair: return "rdma_unknown_queue_pair";
    case Counter::kRdmaOutOfSequence: return "rdma_out_of_sequence";
    case Counter::kRdmaBadLength: return "rdma_bad_length";
    case Counter::kRdmaNoAccess: return "rdma_no_access";
    case Counter::kCount: break;
  }
  return "unknown";
}

}  // namespace jaxina
