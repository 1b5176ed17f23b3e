// The types and named values that the controls share.
#ifndef JAXINA_TYPES_P4
#define JAXINA_TYPES_P4

// What became of a packet. The values are also indices of the counters (p4/README.md).
typedef bit<4> reason_t;
const reason_t ADDED = 0;
const reason_t COMPLETED = 1;
const reason_t RESENT = 2;
const reason_t PENDING = 3;
const reason_t BAD_LENGTH = 4;
const reason_t UNKNOWN_JOB = 5;
const reason_t WRONG_SECRET = 6;
const reason_t STALE = 9;
const reason_t AHEAD = 10;
const reason_t MISMATCH = 11;
const reason_t NO_ACCESS = 12;
const reason_t UNHEARD = 13;
const reason_t HANDED_OVER = 14;

// What kind of packet the parser found.
typedef bit<8> kind_t;
const kind_t PLAIN = 0;      // other traffic
const kind_t UDP_UPDATE = 1;
const kind_t ROCE_UPDATE = 2;
const kind_t CONSUMING = 3;  // comes round again, and this pipe adds its words
const kind_t READING_HIGH = 4;  // comes round again to read this pipe's high words
const kind_t READING_LOW = 5;  // comes round again to read this pipe's low words
const kind_t RESULT_PASSING = 6;  // atp.p4: a server's result, on its way to the workers
const kind_t REPLY_PASSING = 7;  // atp.p4: another reply of a server
const kind_t REMEMBERING = 8;  // atp.p4: comes round again because its entry was taken

// Whether an update is of the pass that its slot sums now. Only the first pipe knows the slot's turn.
typedef bit<8> turn_of_pass_t;
const turn_of_pass_t EARLIER = 0;  // of a pass before it, which is complete
const turn_of_pass_t NOW = 1;

// What the packet becomes when it has passed all pipes.
typedef bit<8> outcome_t;
const outcome_t NOT_DECIDED = 0;  // the last pipe that adds its words decides
const outcome_t RESULT = 1;    // the result, for all workers
const outcome_t COPY = 2;      // the result again, for one worker

// Where egress sends a packet.
typedef bit<8> route_t;
const route_t AS_IT_IS = 0;
const route_t TO_WORKER = 1;   // to the worker that the copy's replication id or the packet's rid names, by table
const route_t TO_SENDER = 2;   // back to where the packet came from

// How a version's tag compares with an update. The stateful ALU compares epoch and fingerprint, and returns one bit for
// each of the four outcomes. 0 means that nothing was compared. atp.p4 has two outcomes: SAME_PASS, and OTHER_PASS for
// an update that has claimed its entry.
typedef bit<4> compared_t;
const compared_t SAME_PASS = 0b0001;      // both are equal
const compared_t OTHER_EPOCH = 0b0010;    // the epoch differs; the fingerprint is equal by chance
const compared_t CONTRADICTION = 0b0100;  // the epoch is equal, the fingerprint differs
const compared_t OTHER_PASS = 0b1000;     // both differ

struct words_pair_t {
    bit<32> low;
    bit<32> high;
}

struct turn_t {
    bit<32> turn;
    bit<32> distance;
}

struct tag_t {
    bit<32> epoch;
    bit<32> fingerprint;
}

struct stamp_t {
    bit<32> even;
    bit<32> odd;
}

#endif
