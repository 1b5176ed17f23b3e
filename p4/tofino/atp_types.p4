// The types and named values of atp.p4, besides those of types.p4.
#ifndef JAXINA_ATP_TYPES_P4
#define JAXINA_ATP_TYPES_P4

#include "types.p4"

// What became of a packet, where types.p4 has no name for it. The values are also indices of the counters
// (p4/README.md).
const reason_t CLAIMED = 0;
const reason_t JOINED = 1;
const reason_t COMBINED = 2;    // joined as the last one
const reason_t REPEATED = 3;
const reason_t ABSORBED = 9;
const reason_t COLLIDED = 10;
const reason_t PASSED_ON = 11;
const reason_t REPLY = 12;
const reason_t FOREIGN = 15;

// Whose an entry is. The stateful ALU compares the owner's key and age, and returns one bit for each of the four
// outcomes. 0 means that nothing was compared.
typedef bit<4> owned_t;
const owned_t TAKEN = 0b0001;    // another pass has it
const owned_t HELD = 0b0010;     // this pass has it
const owned_t FREE = 0b0100;     // nobody has it, or another pass did for too long
const owned_t EXPIRED = 0b1000;  // this pass had it for too long

// Where a packet goes after ingress.
typedef bit<8> way_t;
const way_t NOWHERE = 0;
const way_t UPSTREAM = 1;       // to the slot's server, or to the switch above
const way_t TO_CHILDREN = 2;
const way_t TO_CHILD = 3;
const way_t ROUND_READING = 4;
const way_t ROUND_REMEMBERING = 5;
const way_t HANDED = 6;         // to the pool's pipe
const way_t REFUSED = 7;        // back to the sender, as a notice

// Where egress finds a packet's station, besides the routes of types.p4.
const route_t TO_STATION = 3;   // by the passage's rid
const route_t TO_COPIES = 4;    // by each copy's replication id

struct owner_t {
    bit<32> key;      // of the pass: its epoch, mixed with a number of the job's registration
    bit<32> claimed;  // when; 0: the entry is free
}

struct child_stamp_t {
    bit<32> key;
    bit<32> added;    // when
}

struct slot_pass_t {
    bit<32> job;
    bit<32> epoch;
}

#endif
