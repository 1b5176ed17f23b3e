// All sizes of the program, and how they follow from the chip. -DPIPES=2 and -DPIPES=4 choose the larger programs;
// docs/tofino.md has the compiler's figures.
#ifndef JAXINA_CONSTANTS_P4
#define JAXINA_CONSTANTS_P4

#ifndef PIPES
#define PIPES 1
#endif

// --- How many words a pass adds ---------------------------------------------------------------------------------------
// A pipe has 12 stages. A stage has 4 stateful ALUs, and each adds 2 x 32 bits at a time. Stages 0 to 2 decide what a
// packet may do: 0 admission, 1 the slot's turn, 2 fingerprint and stamp. That leaves 9 stages x 4 = 36 ALUs. 32 of
// them add (64 words), and 3 hold the count, the bitmap and the exponent.
#define WORDS_PER_PIPE 64
#define WORDS (WORDS_PER_PIPE * PIPES)   // words of a chunk: 64, 128 or 256
#define WORD_BYTES (4 * WORDS)           // 256, 512 or 1024
#define HALF_BYTES 128                   // 32 words: one pass can read back so many

// --- Passes -----------------------------------------------------------------------------------------------------------
// A packet visits every pipe once, where its words are consumed: steps 0 to PIPES - 1. An ALU returns one of its two
// words, so reading the 64 words of a pipe takes two passes. The last consuming step is also the first of the reading
// passes, so
//   steps = PIPES + 2 * PIPES - 1 = 2 for one pipe, 5 for two, 11 for four.
// Only two kinds of packets go beyond step PIPES - 1: one that completes a pass of its slot (one in n), and one that
// asks for a result again.
#define LAST_CONSUME (PIPES - 1)
#define LAST_STEP (3 * PIPES - 2)        // 1, 4 or 10

// --- Slots and workers ------------------------------------------------------------------------------------------------
// At 100 Gbit/s, a round trip of 10 us keeps 125 kB in flight: 378 packets of 330 bytes, or 116 of 1080. SwitchML uses
// 512 slots at that rate; with 1024, two such jobs share the pool. An SRAM block holds 1024 x 128 bits = 2048 pairs of
// words, so the 2 x 1024 versions fill one block per ALU. The hardware adds a spare block to each: 32 ALUs x 2 = 64 of
// 960 blocks. Stamps take 1024 slots x 32 workers x 64 bits = 16 blocks, and one spare.
#define SLOTS 1024
#define VERSIONS 2048                    // 2 * SLOTS
#define WORKERS 32                       // a bitmap is one ALU word
#define STAMPS 32768                     // SLOTS * WORKERS; also the number of queue pairs that results are written to
#define REPLICAS 8192                    // 256 job indices * WORKERS

// Admission is in TCAM. A job takes 2 entries per worker, and 2 more; for each pipe with ports besides the pool's, a
// worker takes 1 more. So 512 entries hold 7 jobs of 32 workers, or 51 jobs of 4. More entries do not fit into stage 0,
// and the adders need all stages from the fourth on.
#define ADMISSIONS 512
#define LOOPBACK_PORTS 64                // 16 of each pipe, as SwitchML uses
#define STATIONS 1024
#define PORTS 287                        // of all pipes; the traffic manager has exclusion ids 0 to 287

// --- What the controls that both programs share take for a repetition -------------------------------------------------
// How the tag compares with an update whose worker has contributed already. Here it may be of an earlier turn, which has
// not been compared so.
#ifndef REPETITION
#define REPETITION _
#endif

// --- The wire ---------------------------------------------------------------------------------------------------------
#define MAGIC_VERSION_UPDATE 0x4a580101  // kMagic, kVersion, Kind::kUpdate
#define MAGIC_VERSION 0x4a580100
#define ROCE_PORT 4791
#define IPV4 0x0800                      // ether types
#define VLAN 0x8100
#define WRITE_ONLY_IMM 0x2b
// UDP length of an update = UDP header 8 + jaxina's header 36 + exponents padded to 4 + words.
#define UDP_EMPTY 44
#define UDP_EXPONENT 48
#define UDP_WORDS (44 + WORD_BYTES)
#define UDP_BOTH (48 + WORD_BYTES)
// UDP length of a RoCE write = UDP header 8 + BTH 12 + RETH 16 + immediate 4 + message + ICRC 4.
#define ROCE_EXPONENT 48
#define ROCE_WORDS (44 + WORD_BYTES)
#define ROCE_BOTH (48 + WORD_BYTES)

const bit<8> KIND_RESULT = 2;
const bit<16> ALL_WORKERS = 0xffff;
#if PIPES == 1
const bit<8> KIND_PENDING = 3;
const bit<8> KIND_REFUSED = 4;
const bit<8> REFUSAL_UNKNOWN_JOB = 1;
const bit<8> REFUSAL_AHEAD = 2;
#endif

#endif
