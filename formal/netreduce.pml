/* NetReduce: a ring of reliable connections through a switch that adds (docs/netreduce.md).
 *
 * N workers stream C passes through each of S slots, or C1 through the second one. Worker w has a connection to worker w + 1. A message is one packet,
 * and its number counts the connection's messages. Workers post in any order: a slot's next pass when the result of its
 * last one is there.
 *
 * The rule:
 *   - The switch takes a connection's packets in their order, and adds each to its slot. It holds them until their sums
 *     are complete, and releases the sums in the order of the connection.
 *   - A copy of a released packet brings its sum again. If the sum is gone, or if the message is older than the last
 *     R * S ones, it brings an empty write of the same number.
 *   - A packet behind a gap is not taken. It brings an empty write far ahead, which the receiver takes for a gap.
 *   - The receiver takes packets in their order. It acknowledges what it has, also to a copy. At a gap it sends a NAK,
 *     which acknowledges all before the missing packet. The sender goes back to that one; a timeout does the same.
 *   - A worker sees how many workers are in a result. If it is not all, its job ends.
 *
 * Two networks, as in slot.pml. FOREVER keeps every packet and delivers it at any time, any number of times or never. It
 * is for safety. Without it, losses and duplicates are bounded, and timeouts strike when nothing is under way. It is for
 * progress. With ORDERED no packet overtakes another one, so that two slots, in all orders of posting, are few enough
 * states. With REBOOTS the switch may forget its rings at any time. From then on it passes packets as they are.
 *
 * With UNCHECKED, a worker takes what passed the switch as it was. That is so for packets of exponents alone, and here for
 * all. No sum may follow in the same slot: it would be formed from what follows from one worker's exponents.
 *
 * Safety (assertions): a worker takes only the sum of all workers, for the pass that it waits for; each contribution
 * counts once; no acknowledgement reaches a worker of what the next one does not have; an empty write is never taken for
 * a result; a job does not end unless the switch rebooted.
 * Progress: no invalid end state and no cycle. At the end all results are there, and all packets are acknowledged.
 *
 * With RACKS, leaves and a spine stand in the place of the switch: netreduce_racks.pml.
 *
 * Mutants, each of which must fail:
 *   RAW          a packet behind a gap goes on as it is
 *   FORGED_NAK   at a gap the switch itself sends the NAK, for the number that it waits for
 *   ONE_VERSION  a slot has one sum, not two
 *   NO_COUNT     a worker does not see how many workers are in a result (with REBOOTS)
 *   R 1          the switch knows the last S messages only
 *   RECALLS      a switch that forgot its rings goes on with them later (with REBOOTS and UNCHECKED)
 *   NO_REPEAT    a copy of a released packet brings nothing; with RACKS, at the spine
 *   EARLY        a rack's sum goes up with the last worker's packet, whoever is in it (with RACKS)
 *   UP_IN_ORDER, DOWN_IN_ORDER  between switches, packets keep the order of their connection on that way (with RACKS)
 */
#ifndef N
#define N 2
#endif
#ifndef S
#define S 1
#endif
#ifndef C
#define C 3
#endif
#ifndef C1
#define C1 C
#endif
#ifndef R
#define R 2
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef DUPLICATES
#define DUPLICATES 1
#endif
#ifndef REBOOTS
#define REBOOTS 0
#endif

#define PASSES(s) ((s) == 0 -> C : C1)
#define K (C + (S - 1) * C1) /* messages of a connection */
#define ALL ((1 << N) - 1)
#define BIT(x) (1 << (x))
#define NEXT(w) (((w) + 1) % N)

/* The network, per connection: bit k of each is a packet of number k. */
byte up[N];    /* data, to the switch */
byte sums[N];  /* complete sums, from the switch */
byte raw[N];   /* data that passed the switch as it was */
byte empties[N]; /* empty writes */
byte far[N];   /* empty writes far ahead: bit 0 */
byte acks[N];  /* acknowledgements of all up to k */
byte naks[N];  /* NAKs: k is missing */

/* Senders: the pass of each message, as slot * C + pass; how many there are; how many the next worker has. */
byte what[N * K];
byte posted[N];
byte acked[N];
byte next[N * S]; /* the next pass of each slot to post */

/* The switch. */
byte taken[N];
byte released[N];
byte tag[2 * S]; /* one more than the pass that a version holds; 0: none yet */
byte seen[2 * S];
bool forgot;

/* Receivers: packets of the connection from the previous worker; passes of each slot whose result is there. */
byte got[N];
bool said[N];     /* a NAK, since the last packet that was taken */
byte have[N * S]; /* by the worker that has the results */
bool bare[N * S]; /* it took one worker's data for a result */
bool ended;

byte losses, duplicates, reboots;

#define SLOT(w, k) (what[(w) * K + (k)] / C)
#define PASS(w, k) (what[(w) * K + (k)] % C)
#ifdef ONE_VERSION
#define VERSION(s, p) (2 * (s))
#else
#define VERSION(s, p) (2 * (s) + (p) % 2)
#endif
#define AT(w, k) VERSION(SLOT(w, k), PASS(w, k))
#define COMPLETE(w, k) (tag[AT(w, k)] == PASS(w, k) + 1 && seen[AT(w, k)] == ALL)

inline post(w, s) {
  what[w * K + posted[w]] = s * C + next[w * S + s];
  up[w] = up[w] | BIT(posted[w]);
  posted[w]++;
  next[w * S + s]++
}

#ifdef FOREVER
#define SEND_AGAIN(w, k) skip
#else
/* The packets from k on are sent again. */
#define SEND_AGAIN(w, k) up[w] = up[w] | (((1 << posted[w]) - 1) & ~((1 << (k)) - 1))
#endif

#ifdef RACKS
#include "netreduce_racks.pml"
#else
#define SUM_OF(w, k) ALL

inline release_all() {
  for (a : 0 .. N - 1) {
    do
    :: released[a] < taken[a] && COMPLETE(a, released[a]) ->
         sums[a] = sums[a] | BIT(released[a]);
         released[a]++
    :: else -> break
    od
  }
  a = 0
}

inline take(w, k, v) {
  if
  :: tag[v] == PASS(w, k) + 1 ->
       assert((seen[v] & BIT(w)) == 0); /* a contribution counts twice */
       seen[v] = seen[v] | BIT(w)
  :: else ->
#ifndef RECALLS
       /* The pass before is complete, so all workers have the one before that. */
       assert(PASS(w, k) == 0 ||
              (tag[VERSION(SLOT(w, k), PASS(w, k) + 1)] == PASS(w, k) && seen[VERSION(SLOT(w, k), PASS(w, k) + 1)] == ALL));
#endif
       tag[v] = PASS(w, k) + 1;
       seen[v] = BIT(w)
  fi;
  taken[w]++;
  release_all()
}

inline at_switch(w, k) {
  if
  :: forgot -> raw[w] = raw[w] | BIT(k)
  :: !forgot && k == taken[w] -> take(w, k, AT(w, k))
  :: !forgot && k > taken[w] ->
#ifdef RAW
       raw[w] = raw[w] | BIT(k)
#else
#ifdef FORGED_NAK
       naks[w] = naks[w] | BIT(taken[w])
#else
       far[w] = 1
#endif
#endif
  :: !forgot && k < released[w] ->
#ifdef NO_REPEAT
       skip
#else
       if
       :: taken[w] - k <= R * S && COMPLETE(w, k) -> sums[w] = sums[w] | BIT(k)
       :: else -> empties[w] = empties[w] | BIT(k)
       fi
#endif
  :: else /* a copy of one that is held */
  fi
}

#endif /* RACKS */

inline acknowledge(w) {
  if
#ifdef ORDERED
  :: got[w] > 0 -> acks[w] = BIT(got[w] - 1)
#else
  :: got[w] > 0 -> acks[w] = acks[w] | BIT(got[w] - 1)
#endif
  :: else
  fi
}

inline refuse_gap(w) {
  if
#ifdef FOREVER
  :: true -> naks[w] = naks[w] | BIT(got[w])
#else
  :: !said[w] -> said[w] = true; naks[w] = naks[w] | BIT(got[w])
  :: else
#endif
  fi
}

inline not_summed() {
#ifdef NO_COUNT
  assert(false); /* what some workers have sent is taken for the sum of all */
#endif
  assert(forgot); /* a job ends although no switch rebooted */
  ended = true
}

/* Packet k of connection w comes to its receiver, worker w + 1. */
inline receive(w, k, is_sum, is_raw) {
  if
  :: ended
  :: !ended && k < got[w] -> acknowledge(w)
  :: !ended && k > got[w] -> refuse_gap(w)
  :: !ended && k == got[w] && is_sum && SUM_OF(w, k) != ALL -> not_summed()
  :: !ended && k == got[w] && is_sum && SUM_OF(w, k) == ALL ->
       /* The worker waits for this pass: it has sent its own. */
       assert(have[NEXT(w) * S + SLOT(w, k)] == PASS(w, k));
       assert(next[NEXT(w) * S + SLOT(w, k)] == PASS(w, k) + 1);
       assert(!bare[NEXT(w) * S + SLOT(w, k)]); /* the sum of a pass that follows from one worker's data */
       have[NEXT(w) * S + SLOT(w, k)]++;
       got[w]++;
       said[w] = false;
       acknowledge(w)
  :: !ended && k == got[w] && is_raw ->
#ifdef UNCHECKED
       /* As for packets of exponents, which the check has left before. */
       have[NEXT(w) * S + SLOT(w, k)]++;
       bare[NEXT(w) * S + SLOT(w, k)] = true;
       got[w]++;
       said[w] = false;
       acknowledge(w)
#else
       not_summed()
#endif
  :: !ended && k == got[w] && !is_sum && !is_raw -> assert(forgot); ended = true /* an empty write is taken */
  fi
}

inline on_answer(w, count) {
  assert(count <= got[w]); /* the next worker does not have what is acknowledged */
  if
  :: count > acked[w] -> acked[w] = count
  :: else
  fi
}

/* One guarded choice for each packet there may be. */
#ifdef ORDERED
#define IS_FIRST(set, I, P) && (set[I] & (BIT(P) - 1)) == 0
#else
#define IS_FIRST(set, I, P)
#endif
#define PICK(set, I, P) :: (set[I] & BIT(P)) IS_FIRST(set, I, P) -> i = I; p = P;
#define ROW(set, I) PICK(set, I, 0) PICK(set, I, 1) PICK(set, I, 2) PICK(set, I, 3) PICK(set, I, 4)
#if N > 2
#define EACH(set) ROW(set, 0) ROW(set, 1) ROW(set, 2)
#else
#define EACH(set) ROW(set, 0) ROW(set, 1)
#endif
#ifdef FOREVER
#define TAKE(set) skip
#else
/* The packet is used up, stays to arrive again, or is lost. */
#define TAKE(set) \
  if \
  :: set[i] = set[i] & ~BIT(p) \
  :: duplicates < DUPLICATES -> duplicates++ \
  :: losses < LOSSES -> losses++; lost = true; set[i] = set[i] & ~BIT(p) \
  fi
#endif
#define ARRIVES(set, what_happens) ARRIVES_OF(EACH, set, what_happens)
#define ARRIVES_OF(choices, set, what_happens) \
  :: atomic { \
       if \
       choices(set) \
       fi; \
       TAKE(set); \
       d_step { \
         if \
         :: lost \
         :: else -> what_happens \
         fi; \
         lost = false; i = 0; p = 0 \
       } \
     }

#define MAY_POST(w, s) (!ended && next[(w) * S + (s)] < PASSES(s) && next[(w) * S + (s)] == have[(w) * S + (s)])
#define POSTS(w, s) :: d_step { MAY_POST(w, s) -> post(w, s) }

#if N > 2
#define QUIET (acked[0] == K && acked[1] == K && acked[2] == K)
#else
#define QUIET (acked[0] == K && acked[1] == K)
#endif
#define DONE (ended || QUIET)

inline timeouts() {
  for (a : 0 .. N - 1) { SEND_AGAIN(a, acked[a]) }
  a = 0
}

inline check_end() {
  for (a : 0 .. N * S - 1) { assert(ended || have[a] == PASSES(a % S)) }
  a = 0
}

init {
  byte a, i, p;
  bool lost;
  do
  POSTS(0, 0)
  POSTS(1, 0)
#if S > 1
  POSTS(0, 1)
  POSTS(1, 1)
#endif
#if N > 2
  POSTS(2, 0)
#if S > 1
  POSTS(2, 1)
#endif
#endif
  ARRIVES(up, at_switch(i, p))
  ARRIVES(sums, receive(i, p, true, false))
#if defined(RAW) || REBOOTS > 0
  ARRIVES(raw, receive(i, p, false, true))
#endif
  ARRIVES(empties, receive(i, p, false, false))
  ARRIVES(far, refuse_gap(i))
  ARRIVES(acks, on_answer(i, p + 1))
  ARRIVES(naks, on_answer(i, p); SEND_AGAIN(i, p))
#ifdef RACKS
  ARRIVES_OF(EACH_RACK, rack_sums, at_spine(i, p, part[i * K + p]))
  ARRIVES_OF(EACH_RACK, totals, at_other_leaf(i, p, true))
#if REBOOTS > 0
  ARRIVES_OF(EACH_RACK, rack_raw, at_spine(i, p, BIT(LAST_OF(i))))
  ARRIVES_OF(EACH_RACK, totals_raw, at_other_leaf(i, p, false))
  :: d_step { reboots < REBOOTS -> reboots++; forgot = true; without = without | 1 }
  :: d_step { reboots < REBOOTS -> reboots++; forgot = true; without = without | 2 }
  :: d_step { reboots < REBOOTS -> reboots++; forgot = true; without = without | 4 }
#endif
#elif REBOOTS > 0
  :: d_step { reboots < REBOOTS && !forgot -> reboots++; forgot = true }
#endif
#ifdef RECALLS
  :: d_step {
       forgot ->
         for (a : 0 .. N - 1) { taken[a] = got[a]; released[a] = got[a] }
         for (a : 0 .. 2 * S - 1) { tag[a] = 0; seen[a] = 0 }
         a = 0;
         forgot = false
     }
#endif
#ifdef NO_END /* claims, wrongly, that the last acknowledgement never comes */
  :: QUIET -> assert(false)
#endif
  :: timeout && !DONE -> d_step { timeouts() }
  :: timeout && DONE -> d_step { check_end() }; break
  od
}
