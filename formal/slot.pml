/* The slot protocol: Algorithms 3 and 4 of the SwitchML paper (Sapio et al., NSDI 2021) with an epoch in every packet.
 *
 * N workers stream C passes through each of S slots. Sent packets are in a set, without order. There are two networks:
 *   FOREVER  A packet stays in the set and may arrive at any time, any number of times, or never. This covers every
 *            pattern of loss, duplication, reordering, delay and retransmission. It is for safety checks only.
 *   else     An arriving packet is removed, stays once more (at most DUPLICATES in total) or is lost (at most LOSSES).
 *            When nothing is under way, every waiting worker has a timeout. It is for progress checks.
 * With RESTARTS the job may restart at any time, as a new incarnation, while packets of the old one are under way.
 *
 * The model compares epochs modulo M, as the real protocol compares them modulo 2^32; it also knows the true pass
 * numbers. A packet that is more than W passes older than the newest pass of its slot is assumed to be gone: this is
 * the network's packet lifetime. The model leaves out fingerprints, which detect some more wrong packets.
 *
 * Safety (assertions): a pass holds only contributions for exactly that pass, of this incarnation, and one of each
 * worker when it is complete. A worker accepts a result only for the pass that it waits for.
 * Progress: there is no invalid end state and no cycle. (No state is marked as progress, so spin's search for
 * non-progress cycles finds every cycle.) So every run ends with all results at all workers, if losses end.
 *
 * Mutants, each of which must fail:
 *   PAPER            only the version bit distinguishes passes, as in the paper
 *   NO_BITMAP_CLEAR  a reused version keeps its bitmap
 *   PREMATURE_REUSE  workers send a slot's next pass before they have the result of the current one
 *   NO_RESEND        a retransmission of a complete pass gets no answer
 *   NO_SECRET        packets of the old incarnation look like those of the new one
 *   and M too small for W
 */
#ifndef N
#define N 2
#endif
#ifndef S
#define S 1
#endif
#ifndef C
#define C 4
#endif
#ifndef M
#define M 8            /* even: the version is the epoch's lowest bit */
#endif
#ifndef W
#define W (M - 2)
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef DUPLICATES
#define DUPLICATES 1
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif

#define ALL ((1 << N) - 1)
#define BIT(x) (1 << (x))
#ifdef PAPER
#define WIRE(pass) ((pass) % 2)
#else
#define WIRE(pass) ((pass) % M)
#endif
#define VERSION(s, pass) (2 * (s) + (pass) % 2)

/* The network: bit p of updates[...] is the update for pass p, of results[...] the result of pass p. */
#define AT(i, w, s) (((i) * N + (w)) * S + (s))
short updates[(RESTARTS + 1) * N * S];
short results[(RESTARTS + 1) * N * S];

/* The aggregator, per slot and version. It compares only `wire`; `pass` and `bad` are for the assertions. */
byte wire[2 * S];
byte seen[2 * S];
byte count[2 * S];
byte pass[2 * S];
bool bad[2 * S];
byte begun[S]; /* how many passes of the slot have begun */

/* Workers: the pass that each slot waits for; C if it has all results. */
byte waits[N * S];
byte incarnation, losses, duplicates;

/* Whether a packet is young enough for the network to still have it. */
#define ALIVE(s, p) (begun[s] <= (p) + 1 + W)

inline send_update(w, s, p) {
  updates[AT(incarnation, w, s)] = updates[AT(incarnation, w, s)] | BIT(p)
}

inline send_result(w, s, v) {
  results[AT(incarnation, w, s)] = results[AT(incarnation, w, s)] | BIT(pass[v])
}

inline send_what_is_awaited(w, s) {
  if
  :: waits[w * S + s] < C ->
       send_update(w, s, waits[w * S + s]);
#ifdef PREMATURE_REUSE
       if
       :: waits[w * S + s] + 1 < C -> send_update(w, s, waits[w * S + s] + 1)
       :: else
       fi
#endif
  :: else
  fi
}

inline timeouts() {
  for (a : 0 .. N - 1) { for (b : 0 .. S - 1) { send_what_is_awaited(a, b) } }
  a = 0; b = 0
}

inline start_incarnation() {
  for (b : 0 .. S - 1) {
    for (a : 0 .. 1) {
      wire[2 * b + a] = WIRE(M - 2 + a);
      seen[2 * b + a] = 0;
#ifdef PAPER
      count[2 * b + a] = 0;
#else
      count[2 * b + a] = N;
#endif
      pass[2 * b + a] = 0;
      bad[2 * b + a] = false
    }
    begun[b] = 0;
    for (a : 0 .. N - 1) { waits[a * S + b] = 0 }
  }
  a = 0; b = 0;
  timeouts()
}

inline multicast(s, v) {
  assert(!bad[v]);
  for (a : 0 .. N - 1) { send_result(a, s, v) }
  a = 0
}

inline begin_pass(w, s, p, v, i) {
  pass[v] = p;
  bad[v] = (i != incarnation);
  if
  :: p >= begun[s] -> begun[s] = p + 1
  :: else
  fi
}

#ifdef PAPER
inline on_update(w, s, p, v, i) {
  if
  :: !(seen[v] & BIT(w)) ->
       seen[v] = seen[v] | BIT(w);
       seen[VERSION(s, p + 1)] = seen[VERSION(s, p + 1)] & ~BIT(w);
       count[v] = (count[v] + 1) % N;
       if
       :: count[v] == 1 -> begin_pass(w, s, p, v, i)
       :: else -> bad[v] = bad[v] || pass[v] != p
       fi;
       if
       :: count[v] == 0 -> multicast(s, v)
       :: else
       fi
  :: else ->
       if
       :: count[v] == 0 -> send_result(w, s, v)
       :: else
       fi
  fi
}
#else
inline on_update(w, s, p, v, i) {
  if
  :: wire[v] == WIRE(p) && (seen[v] & BIT(w)) ->
       if
#ifndef NO_RESEND
       :: count[v] == N -> send_result(w, s, v)
#endif
       :: else /* pending */
       fi
  :: wire[v] == WIRE(p) && !(seen[v] & BIT(w)) && count[v] < N ->
       bad[v] = bad[v] || pass[v] != p || i != incarnation;
       seen[v] = seen[v] | BIT(w);
       count[v]++;
       if
       :: count[v] == N -> assert(seen[v] == ALL); multicast(s, v)
       :: else
       fi
  :: wire[v] == WIRE(p + M - 2) && wire[VERSION(s, p + 1)] == WIRE(p + M - 1) && count[VERSION(s, p + 1)] == N ->
       wire[v] = WIRE(p);
#ifndef NO_BITMAP_CLEAR
       seen[v] = 0;
#endif
       seen[v] = seen[v] | BIT(w);
       count[v] = 1;
       assert(p == begun[s]);
       begin_pass(w, s, p, v, i)
  :: else /* stale, ahead, or the initial state */
  fi
}
#endif

#ifdef PAPER /* in the paper's favour, its workers check the offset */
#define MATCHES(p, awaited) ((p) == (awaited))
#else
#define MATCHES(p, awaited) (WIRE(p) == WIRE(awaited))
#endif

inline on_result(w, s, p, i) {
  assert(p == waits[w * S + s] && i == incarnation);
  waits[w * S + s]++;
  send_what_is_awaited(w, s)
}

/* One guarded choice for each possible packet. */
#define PICK(set, I, A, B, P) :: (set[AT(I, A, B)] & BIT(P)) -> i = I; w = A; s = B; p = P;
#define PASSES_4(set, I, A, B) PICK(set, I, A, B, 0) PICK(set, I, A, B, 1) PICK(set, I, A, B, 2) PICK(set, I, A, B, 3)
#if C > 4
#define PASSES(set, I, A, B) PASSES_4(set, I, A, B) PICK(set, I, A, B, 4) PICK(set, I, A, B, 5) PICK(set, I, A, B, 6) \
  PICK(set, I, A, B, 7)
#else
#define PASSES(set, I, A, B) PASSES_4(set, I, A, B)
#endif
#if S > 1
#define SLOTS(set, I, A) PASSES(set, I, A, 0) PASSES(set, I, A, 1)
#else
#define SLOTS(set, I, A) PASSES(set, I, A, 0)
#endif
#if N > 2
#define WORKERS(set, I) SLOTS(set, I, 0) SLOTS(set, I, 1) SLOTS(set, I, 2)
#else
#define WORKERS(set, I) SLOTS(set, I, 0) SLOTS(set, I, 1)
#endif
#if RESTARTS > 0
#define EVERYTHING(set) WORKERS(set, 0) WORKERS(set, 1)
#else
#define EVERYTHING(set) WORKERS(set, 0)
#endif

#ifdef FOREVER
#define TAKE(set) skip
#else
/* The packet is removed, stays and may arrive again, or is lost. */
#define TAKE(set) \
  if \
  :: set[AT(i, w, s)] = set[AT(i, w, s)] & ~BIT(p) \
  :: duplicates < DUPLICATES -> duplicates++ \
  :: losses < LOSSES -> losses++; lost = true; set[AT(i, w, s)] = set[AT(i, w, s)] & ~BIT(p) \
  fi
#endif

/* Packets that arrive but have no effect. */
#ifdef NO_SECRET
#define FOREIGN false
#define LATE (i == incarnation && !ALIVE(s, p))
#else
#define FOREIGN (i != incarnation)
#define LATE (!ALIVE(s, p))
#endif
#define IGNORED (lost || FOREIGN || LATE)
#define AWAITED (waits[w * S + s] < C && MATCHES(p, waits[w * S + s]))

#if N > 2
#define DONE_IN(s) (waits[s] == C && waits[S + (s)] == C && waits[2 * S + (s)] == C)
#else
#define DONE_IN(s) (waits[s] == C && waits[S + (s)] == C)
#endif
#define DONE (DONE_IN(0) && DONE_IN(S - 1))

init {
  byte a, b, i, w, s, p, v;
  bool lost;
  byte restarts = RESTARTS;
  d_step { start_incarnation() };
  do
  :: atomic { /* an update arrives at the aggregator */
       if
       EVERYTHING(updates)
       fi;
       TAKE(updates);
       v = VERSION(s, p);
       d_step {
         if
         :: IGNORED
         :: else -> on_update(w, s, p, v, i)
         fi;
         lost = false; i = 0; w = 0; s = 0; p = 0; v = 0
       }
     }
  :: atomic { /* a result arrives at a worker */
       if
       EVERYTHING(results)
       fi;
       TAKE(results);
       if
       :: !IGNORED && AWAITED -> d_step { on_result(w, s, p, i) }
       :: else
       fi;
       d_step { lost = false; i = 0; w = 0; s = 0; p = 0 }
     }
  :: atomic { restarts > 0 -> restarts--; incarnation++; d_step { start_incarnation() } }
  :: restarts > 0 -> restarts = 0 /* choose not to restart */
#ifdef NO_END /* a false claim: the last result never arrives */
  :: DONE && incarnation == RESTARTS -> assert(false)
#endif
  :: timeout && !DONE -> d_step { timeouts() }
  :: timeout && DONE -> break
  od
}
