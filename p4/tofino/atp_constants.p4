// The sizes of atp.p4, besides those that it shares with jaxina.p4 (constants.p4). There is one size, in one pipe: 64
// words. In several pipes, each would have to know by itself who owns an entry, and they would have to agree.
#ifndef JAXINA_ATP_CONSTANTS_P4
#define JAXINA_ATP_CONSTANTS_P4

// A stamp is written when the key is found in the entry, before the tag is compared. So a contribution counts only if
// the tag is the pass's, too.
#define REPETITION SAME_PASS
#include "constants.p4"

#if PIPES != 1
#error atp.p4 has one size, PIPES=1
#endif

// A pass in flight has one entry, and a slot of jaxina.p4 has two versions. So the same memory holds twice as many
// passes.
#define ENTRIES VERSIONS                 // 2048, and an index has 11 bits
#define CHILDREN 32                      // of a job; also the number of its servers, or of ports of the switch above
#define CHILD_STAMPS 65536               // ENTRIES * CHILDREN
#define MEMORIES 4096                    // places to remember passes whose entry was taken
#define STATIONS_OF_JOBS 16384           // 256 job indices * (CHILDREN children and as many addresses above)
#define UPSTREAMS 4096                   // slots of all jobs
#define CHILDREN_OF_JOBS 4096            // workers of all jobs

// Time in units of 2^16 ns. An entry may be taken from its pass after 200 ms, the longest timeout of a worker.
#define LIFETIME 3052

#define MAGIC_VERSION_RESULT 0x4a580102    // Kind::kResult
#define MAGIC_VERSION_COMBINED 0x4a580106  // Kind::kCombined
const bit<8> KIND_COMBINED = 6;
const bit<8> CODE_AGAIN = 1;     // Transmission::kAgain
const bit<8> CODE_MARKED = 0x80;

// The steps of packets that come round: one reads the low words of a sum, the other remembers a pass.
const bit<8> STEP_READING = 1;
const bit<8> STEP_REMEMBERING = 2;

#endif
