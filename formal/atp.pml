/* ATP's rule on the slot protocol: passes share the table entries of best-effort switches, and a parameter server
 * finishes every sum (docs/atp.md).
 *
 * N workers stream C passes through one slot. A pass has one entry in each switch on its way. RACKS=0: all workers are
 * behind one switch. RACKS=1: workers 0 and 1 are behind a leaf, which sends their group's sum to the server's switch.
 * Worker 2 is behind the server's switch itself. The server is the slot pool of slot.pml. An update carries the set of
 * its workers.
 *
 * The rule:
 *   - A worker's first transmission may claim an entry, its second may only join one, later ones reach the server
 *     as they are.
 *   - A switch adds once from each child, and forwards the sum when all its children are in it. It repeats the sum on
 *     a resend. A packet that finds another pass in its entry is forwarded as it is.
 *   - An entry ends when the result of its own pass goes by, or when another pass wants it after its lifetime. A pass
 *     does not join an entry that is older than the lifetime.
 *   - The server adds disjoint sets, ignores subsets, is replaced by supersets, and refuses sets that overlap.
 *
 * Two networks, as in slot.pml. FOREVER keeps every packet and delivers it at any time, any number of times or never,
 * and an entry may be lost or taken by a rival job at any time. It is for safety. Without it, losses and duplicates are
 * bounded, and timeouts strike when nothing is under way. It is for progress.
 *
 * Safety (assertions): every forwarded sum is the exact sum of its set, for one pass; a worker takes only the result of
 * the pass it waits for; a result frees only its own pass's entry; a packet never throws away other workers'
 * contributions to its own pass.
 * Progress: no invalid end state and no cycle. At the end a rival can claim every entry.
 *
 * Two more things, which make the search longer. MARKS: any packet may have a mark, and a sum has one if and only if a
 * packet of its own pass came with one. SENT_ON: a switch sends any first transmission on that could claim an entry, as
 * it does if it remembers that the pass has collided.
 *
 * Mutants, each of which must fail:
 *   NO_EPOCH         an entry compares the slot, not the pass
 *   REUSED           the draft's sequence numbers, which begin again with each tensor (here: with each pass)
 *   ADD_OVERLAP      the server adds sets that overlap
 *   EVICT            a resend frees the entry, as in the draft: with a new contribution it takes the partial sum along,
 *                    else it throws it away
 *   COLLIDED_EVICTS  a packet that collided at the leaf frees the entry at the server's switch, as in the draft
 *   NO_EXPIRY        an entry has no lifetime
 *   NO_DIRECT        all transmissions go through the entries
 *   RELEASE_ANY      a result frees the entry on its way without comparing the pass
 *   JOIN_OLD         a pass joins an entry that is older than the lifetime (with C > M)
 *   INHERITED        with MARKS: the next owner of an entry inherits its mark
 * And one claim that is wrong, to show how a pass splits:
 *   NO_SPLIT         no pass needs a resend if nothing is lost
 */
#ifndef N
#define N 2
#endif
#ifndef C
#define C 3
#endif
#ifndef M
#define M 8 /* even: the version is the epoch's lowest bit */
#endif
#ifndef W
#define W (M - 2)
#endif
#ifndef RACKS
#define RACKS 0
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef DUPLICATES
#define DUPLICATES 1
#endif
#ifndef EVICTIONS /* of entries, by rivals or lost memory; in a network that forgets */
#define EVICTIONS 1
#endif

/* A replay (check.py --trace) prints these lines; a search does not. */
#define SAY4(text, a, b, c, d) printf(text, a, b, c, d)

#define ALL ((1 << N) - 1)
#define RACK 3 /* workers 0 and 1 */
#define BIT(x) (1 << (x))
#ifdef REUSED
#define WIRE(pass) 0
#define VERSION(pass) 0
#else
#define WIRE(pass) ((pass) % M)
#define VERSION(pass) ((pass) % 2)
#endif
#ifdef NO_EPOCH
#define TAG(pass) 0
#else
#define TAG(pass) WIRE(pass)
#endif

/* Transmissions. */
#define FIRST 0
#define SECOND 1
#define DIRECT 2
#ifdef NO_DIRECT
#define LAST_KIND SECOND
#else
#define LAST_KIND DIRECT
#endif

/* The network: bit p of each is a packet of pass p. The words of a bad packet are not the exact sum of its set. */
short up[3 * N];   /* [kind * N + worker]: from a worker to its switch */
short mid[2 * 8];  /* [bad * 8 + set]: from the leaf to the server's switch; set 7 is the repeated group */
short in[2 * 8];   /* [bad * 8 + set]: to the server */
short down[2];     /* results: to the server's switch; to the leaf */
short results[N];  /* results: to a worker */

/* The switches' entries: 0 is the leaf's or the only one, 1 the server's switch with RACKS. */
#define EMPTY 0
#define HELD 1
#define RIVAL 2
byte state[2];
byte tag[2];
byte held[2]; /* the set of workers */
byte own[2];  /* the true pass */
bool spoilt[2];

#ifdef MARKS
bool marked[2];     /* what the switch knows */
bool own_marks[2];  /* a packet of the entry's pass has come with a mark since it claimed the entry */
#ifdef INHERITED
#define CLAIM_MARKED(e) marked[e] = marked[e] || m
#else
#define CLAIM_MARKED(e) marked[e] = m
#endif
#define CLAIM_MARK(e) CLAIM_MARKED(e); own_marks[e] = m
#define JOIN_MARK(e) marked[e] = marked[e] || m; own_marks[e] = own_marks[e] || m
#define CHECK_MARK(e) assert(marked[e] == own_marks[e])
#define DRAW_MARK if :: m = false :: m = true fi
#else
#define CLAIM_MARK(e) skip
#define JOIN_MARK(e) skip
#define CHECK_MARK(e) skip
#define DRAW_MARK skip
#endif
#ifdef SENT_ON
#define DRAW_SENT_ON if :: on = false :: on = true fi
#else
#define DRAW_SENT_ON skip
#endif

/* The server's slot, per version. All that it compares is `wire`; `pass` and `bad` are for the assertions. */
byte wire[2];
byte seen[2];
byte pass[2];
bool bad[2];
byte begun; /* passes */

/* Workers: the pass that each waits for, C when it has all; its last transmission. */
byte waits[N];
byte kind[N];
byte losses, duplicates, evictions;

/* A packet, or an entry, of a pass that is older than the network keeps any. */
#define ALIVE(p) (begun <= (p) + 1 + W)
#ifdef JOIN_OLD
#define YOUNG(e) true
#else
#define YOUNG(e) ALIVE(own[e])
#endif

inline send(w, k) { up[(k) * N + w] = up[(k) * N + w] | BIT(waits[w]) }

inline begin_to_send(w) {
  kind[w] = FIRST;
  if
  :: waits[w] < C ->
       send(w, FIRST);
#ifdef FOREVER
       send(w, SECOND);
#ifndef NO_DIRECT
       send(w, DIRECT);
#endif
#endif
  :: else
  fi
}

inline timeouts() {
  for (a : 0 .. N - 1) {
    if
    :: waits[a] < C ->
         if
         :: kind[a] < LAST_KIND -> kind[a]++
         :: else
         fi;
         send(a, kind[a])
    :: else
    fi
  }
  a = 0
}

/* Upstream of switch e. */
inline forward(e, set, again, p, b) {
  if
  :: RACKS && e == 0 -> mid[(b) * 8 + (again -> 7 : set)] = mid[(b) * 8 + (again -> 7 : set)] | BIT(p)
  :: else -> in[(b) * 8 + set] = in[(b) * 8 + set] | BIT(p)
  fi
}

#ifdef EVICT
#define EVICTS(k) (k == SECOND)
#else
#define EVICTS(k) false
#endif
#define WHOLE(e) ((RACKS && e == 0) -> RACK : ALL)
#define OWN(e, p) (state[e] == HELD && tag[e] == TAG(p) && YOUNG(e))

inline free_entry(e) { state[e] = EMPTY; tag[e] = 0; held[e] = 0; own[e] = 0; spoilt[e] = false }

/* A child's packet with the sum of `set` comes to switch e. */
inline at_switch(e, k, set, p, b) {
  if
  :: k != DIRECT && OWN(e, p) ->
       spoilt[e] = spoilt[e] || own[e] != p;
       JOIN_MARK(e);
       if
       :: held[e] == WHOLE(e) -> CHECK_MARK(e); forward(e, held[e], true, p, spoilt[e]);
            SAY4("switch %d: pass %d is complete, its set %d goes on again (transmission %d)\n", e, p, held[e], k)
       :: held[e] != WHOLE(e) && EVICTS(k) && (held[e] & set) == set ->
            SAY4("switch %d: the resend of set %d, pass %d, frees the entry with set %d\n", e, set, p, held[e]);
            assert(held[e] == set); /* other workers' contributions are thrown away */
            forward(e, set, false, p, b);
            free_entry(e)
       :: held[e] != WHOLE(e) && EVICTS(k) && (held[e] & set) == 0 ->
            SAY4("switch %d: the resend of set %d, pass %d, takes set %d along\n", e, set, p, held[e]);
            forward(e, (held[e] | set), false, p, (spoilt[e] || b));
            free_entry(e)
       :: held[e] != WHOLE(e) && !EVICTS(k) && (held[e] & set) == set ->
            SAY4("switch %d: set %d of pass %d is there already (transmission %d)\n", e, set, p, k)
       :: held[e] != WHOLE(e) && !EVICTS(k) && (held[e] & set) == 0 ->
            held[e] = held[e] | set;
            spoilt[e] = spoilt[e] || b;
            SAY4("switch %d: set %d of pass %d joins an entry that pass %d claimed\n", e, set, p, own[e]);
            if
            :: held[e] == WHOLE(e) -> CHECK_MARK(e); forward(e, held[e], false, p, spoilt[e])
            :: else
            fi
       fi
  :: k == FIRST && !on && !OWN(e, p) && (state[e] == EMPTY || (state[e] == HELD && !YOUNG(e))) ->
       state[e] = HELD; tag[e] = TAG(p); held[e] = set; own[e] = p; spoilt[e] = b;
       CLAIM_MARK(e);
       SAY4("switch %d: set %d of pass %d claims the entry (transmission %d)\n", e, set, p, k)
  :: else ->
       forward(e, set, false, p, b);
       SAY4("switch %d: set %d of pass %d goes on as it is (transmission %d)\n", e, set, p, k)
  fi
}

/* The result of pass p goes by. */
inline release(e, p) {
  if
#ifdef RELEASE_ANY
  :: state[e] != EMPTY ->
       SAY4("switch %d: the result of pass %d frees the entry of pass %d (state %d)\n", e, p, own[e], state[e]);
       assert(state[e] == HELD && own[e] == p); /* another pass's sum is thrown away */
       free_entry(e)
#else
  :: OWN(e, p) ->
       SAY4("switch %d: the result of pass %d frees the entry with set %d of pass %d\n", e, p, held[e], own[e]);
       free_entry(e)
#endif
  :: else
  fi
}

inline answer(v) {
  SAY4("server: the result of pass %d: set %d, wrong %d (version %d)\n", pass[v], seen[v], bad[v], v);
  assert(!bad[v]);
  down[0] = down[0] | BIT(pass[v])
}

inline counted(v) {
  if
  :: seen[v] == ALL -> answer(v)
  :: else
  fi
}

/* An update with the sum of `set` comes to the server. */
inline at_server(set, p, b, v) {
  SAY4("server: set %d of pass %d arrives, wrong %d; it has set %d\n", set, p, b, seen[v]);
  if
#ifdef REUSED
  :: set == ALL -> pass[v] = p; bad[v] = b; seen[v] = ALL; answer(v)
  :: set != ALL && (seen[v] & set) == 0 ->
       if
       :: seen[v] == 0 -> pass[v] = p
       :: else -> bad[v] = bad[v] || pass[v] != p
       fi;
       seen[v] = seen[v] | set;
       counted(v)
  :: else
#else
  :: wire[v] == WIRE(p) && (seen[v] & set) == set -> counted(v) /* all is here already */
  :: wire[v] == WIRE(p) && (seen[v] & set) == 0 ->
       bad[v] = bad[v] || b || pass[v] != p;
       seen[v] = seen[v] | set;
       counted(v)
  :: wire[v] == WIRE(p) && (seen[v] & set) == seen[v] && seen[v] != set && seen[v] != 0 ->
       bad[v] = b || pass[v] != p;
       seen[v] = set;
       counted(v)
#ifdef ADD_OVERLAP
  :: wire[v] == WIRE(p) && (seen[v] & set) != 0 && (seen[v] & set) != set && (seen[v] & set) != seen[v] ->
       bad[v] = true;
       seen[v] = seen[v] | set;
       counted(v)
#endif
  :: wire[v] == WIRE(p + M - 2) && wire[1 - v] == WIRE(p + M - 1) && seen[1 - v] == ALL ->
       assert(p == begun);
       wire[v] = WIRE(p);
       seen[v] = set;
       pass[v] = p;
       bad[v] = b;
       begun = p + 1;
       counted(v)
  :: else /* sets that overlap; stale, ahead */
#endif
  fi
}

/* One guarded choice for each packet there may be. */
#define PICK(set, I, P) :: (set[I] & BIT(P)) -> i = I; p = P;
#if C > 4
#define ROW(set, I) PICK(set, I, 0) PICK(set, I, 1) PICK(set, I, 2) PICK(set, I, 3) PICK(set, I, 4) PICK(set, I, 5) \
  PICK(set, I, 6) PICK(set, I, 7)
#else
#define ROW(set, I) PICK(set, I, 0) PICK(set, I, 1) PICK(set, I, 2) PICK(set, I, 3)
#endif
#if N > 2
#define PER_WORKER(set) ROW(set, 0) ROW(set, 1) ROW(set, 2)
#define PER_KIND(set) PER_WORKER(set) ROW(set, 3) ROW(set, 4) ROW(set, 5) ROW(set, 6) ROW(set, 7) ROW(set, 8)
#else
#define PER_WORKER(set) ROW(set, 0) ROW(set, 1)
#define PER_KIND(set) PER_WORKER(set) ROW(set, 2) ROW(set, 3) ROW(set, 4) ROW(set, 5)
#endif
#define PER_SET(set) ROW(set, 1) ROW(set, 2) ROW(set, 3) ROW(set, 4) ROW(set, 5) ROW(set, 6) ROW(set, 7) \
  ROW(set, 9) ROW(set, 10) ROW(set, 11) ROW(set, 12) ROW(set, 13) ROW(set, 14) ROW(set, 15)

#ifdef FOREVER
#define TAKE(set) skip
#define MAY_LOSE_ENTRIES true
#define COUNT_EVICTION skip
#else
/* The packet is used up, stays to arrive again, or is lost. */
#define TAKE(set) \
  if \
  :: set[i] = set[i] & ~BIT(p) \
  :: duplicates < DUPLICATES -> duplicates++ \
  :: losses < LOSSES -> losses++; lost = true; set[i] = set[i] & ~BIT(p) \
  fi
#define MAY_LOSE_ENTRIES (evictions < EVICTIONS)
#define COUNT_EVICTION evictions++
#endif
#define GONE (lost || !ALIVE(p))
#define FORGET d_step { lost = false; i = 0; p = 0; m = false; on = false }

#if N > 2
#define DONE (waits[0] == C && waits[1] == C && waits[2] == C)
#else
#define DONE (waits[0] == C && waits[1] == C)
#endif
#define SWITCH_OF(w) ((RACKS && w == 2) -> 1 : 0)

inline lose_entry(e) {
  COUNT_EVICTION;
  SAY4("switch %d: the entry with set %d of pass %d is lost (state %d)\n", e, held[e], own[e], state[e]);
  free_entry(e)
}

inline claimed_by_rival(e) {
  SAY4("switch %d: a rival wants the entry: state %d, set %d of pass %d\n", e, state[e], held[e], own[e]);
  /* After its lifetime an entry gives way. */
#ifdef NO_EXPIRY
  assert(state[e] != HELD)
#else
  free_entry(e)
#endif
}

init {
  byte a, i, p;
  bool lost, m, on;
  d_step {
    wire[0] = WIRE(M - 2); wire[1] = WIRE(M - 1);
#ifdef NO_SPLIT
    state[0] = RIVAL;
#endif
#ifndef REUSED
    seen[1] = ALL; seen[0] = ALL;
#endif
    for (a : 0 .. N - 1) { begin_to_send(a) }
    a = 0
  };
  do
  :: atomic { /* at a worker's switch */
       if
       PER_KIND(up)
       fi;
       TAKE(up);
       DRAW_MARK;
       DRAW_SENT_ON;
       d_step {
         if
         :: GONE
         :: else -> at_switch(SWITCH_OF((i % N)), (i / N), BIT(i % N), p, 0)
         fi
       };
       FORGET
     }
#if RACKS
  :: atomic { /* from the leaf at the server's switch */
       if
       PER_SET(mid)
       fi;
       TAKE(mid);
       DRAW_MARK;
       DRAW_SENT_ON;
       d_step {
         if
         :: GONE
         :: !GONE && (i % 8) == 7 -> at_switch(1, SECOND, RACK, p, (i / 8))
         :: !GONE && (i % 8) == RACK -> at_switch(1, FIRST, RACK, p, (i / 8))
         :: else -> /* not a child's */
#ifdef COLLIDED_EVICTS
              if
              :: OWN(1, p) ->
                   SAY4("switch %d: the collided set %d of pass %d frees the entry with set %d\n", 1, (i % 8), p, held[1]);
                   assert(held[1] == ALL); /* the sum of a whole rack is thrown away */
                   free_entry(1)
              :: else
              fi;
#endif
              forward(1, (i % 8), false, p, (i / 8))
         fi
       };
       FORGET
     }
#endif
  :: atomic { /* at the server */
       if
       PER_SET(in)
       fi;
       TAKE(in);
       d_step {
         if
         :: GONE
         :: else -> at_server((i % 8), p, (i / 8), VERSION(p))
         fi
       };
       FORGET
     }
  :: atomic { /* a result goes through the switches */
       if
       ROW(down, 0)
#if RACKS
       ROW(down, 1)
#endif
       fi;
       TAKE(down);
       d_step {
         if
         :: GONE
#if RACKS
         :: !GONE && i == 0 -> release(1, p); down[1] = down[1] | BIT(p); results[2] = results[2] | BIT(p)
         :: !GONE && i == 1 -> release(0, p); results[0] = results[0] | BIT(p); results[1] = results[1] | BIT(p)
#else
         :: else ->
              release(0, p);
              for (a : 0 .. N - 1) { results[a] = results[a] | BIT(p) }
              a = 0
#endif
         fi
       };
       FORGET
     }
  :: atomic { /* at a worker */
       if
       PER_WORKER(results)
       fi;
       TAKE(results);
       d_step {
         if
         :: !GONE && waits[i] < C && WIRE(p) == WIRE(waits[i]) ->
              SAY4("worker %d: takes the result of pass %d, waits for pass %d (%d)\n", i, p, waits[i], 0);
              assert(p == waits[i]);
              waits[i]++;
              begin_to_send(i)
         :: else
         fi
       };
       FORGET
     }
  :: d_step { MAY_LOSE_ENTRIES && state[0] == HELD -> lose_entry(0) }
  :: d_step { MAY_LOSE_ENTRIES && state[0] == EMPTY -> COUNT_EVICTION; free_entry(0); state[0] = RIVAL }
  :: d_step { state[0] == RIVAL -> free_entry(0) }
#if RACKS
  :: d_step { MAY_LOSE_ENTRIES && state[1] == HELD -> lose_entry(1) }
  :: d_step { MAY_LOSE_ENTRIES && state[1] == EMPTY -> COUNT_EVICTION; free_entry(1); state[1] = RIVAL }
  :: d_step { state[1] == RIVAL -> free_entry(1) }
#endif
#ifdef NO_END /* claims, wrongly, that the last result is never taken */
  :: DONE -> assert(false)
#endif
  :: timeout && !DONE ->
#ifdef NO_SPLIT /* claims, wrongly, that no pass needs a resend if nothing is lost */
       assert(losses > 0);
#endif
       d_step { timeouts() }
  :: timeout && DONE ->
       d_step { claimed_by_rival(0); claimed_by_rival(1) };
       break
  od
}
