/* Part of netreduce.pml: what leaves and a spine do, in the place of a switch alone (docs/netreduce.md, Racks).
 *
 * With N = 3, workers 0 and 1 are in rack 0 and worker 2 is in rack 1. With N = 2, each worker has a rack of its own. The
 * connection of a rack's last worker leads to the other rack, by way of its leaf, the spine and the other leaf.
 *
 * The rule:
 *   - A leaf takes its workers' packets in their order. A rack's sum goes up in the last worker's packet as soon as it is
 *     complete, also before earlier packets of that connection.
 *   - The spine takes them in any order, adds the racks, and sends the total down in the same packets as soon as it is
 *     complete.
 *   - A leaf takes totals in any order, if it has its own rack's sum. With the total go its workers' packets, and that
 *     which brought it, each in the order of its connection.
 *   - A copy brings the sum again, of the rack or of all, as on its way before. If that is gone, it brings an empty write.
 *   - A leaf that gets what nobody has summed, or that lacks its own sum, ends the job: it passes on all as it is.
 */
#define RACK(w) ((w) / (N - 1))
#define LAST_OF(r) (N - 2 + (r))
#define IS_LAST(w) ((w) >= N - 2)
#define WHOLE_RACK(r) ((r) == 0 -> (1 << (N - 1)) - 1 : BIT(N - 1))

/* The network between switches, per rack r: packets of the connection of the rack's last worker. */
byte rack_sums[2];    /* from leaf r to the spine */
byte rack_raw[2];     /* the same: a worker's data that passed a leaf as it was */
byte totals[2];       /* from the spine to the other leaf */
byte totals_raw[2];   /* the same: what passed the spine as it was */
byte part[2 * K];     /* the workers that are in each of rack_sums */

/* Leaves: version v of leaf r is r * 2 * S + v. Their own sums, and totals. */
byte leaf_tag[4 * S];
byte leaf_seen[4 * S];
byte total_tag[4 * S];
byte from_above[2]; /* packets of connection LAST_OF(r) that the other leaf has taken */
byte let_down[2];   /* how many of them have left it */

/* The spine. */
byte spine_tag[2 * S];
byte spine_racks[2 * S];
byte spine_seen[2 * S];
byte at_spine_are[2]; /* packets of connection LAST_OF(r) that it has taken */
byte sent_down[2];    /* how many of them have left it in order; only with DOWN_IN_ORDER */
byte total_of[S * C]; /* the workers that are in the total of a pass */

byte without; /* which switches have forgotten the job: bit r is leaf r, bit 2 the spine */

#define LEAF_KNOWS(r) ((without & BIT(r)) == 0)
#define SPINE_KNOWS ((without & 4) == 0)
#define SUM_OF(w, k) total_of[what[(w) * K + (k)]]
#define LEAF_AT(r, w, k) ((r) * 2 * S + AT(w, k))
#define LEAF_HAS(r, w, k) (leaf_tag[LEAF_AT(r, w, k)] == PASS(w, k) + 1 && leaf_seen[LEAF_AT(r, w, k)] == WHOLE_RACK(r))
#define LEAF_LOST(r, w, k) (leaf_tag[LEAF_AT(r, w, k)] > PASS(w, k) + 1)
#define TOTAL_HAS(r, w, k) (total_tag[LEAF_AT(r, w, k)] == PASS(w, k) + 1)
#define SPINE_HAS(w, k) (spine_tag[AT(w, k)] == PASS(w, k) + 1 && spine_racks[AT(w, k)] == 3)

/* Whether a packet whose sum is complete has left for another switch, of whose connection so many have left in order. */
#ifdef UP_IN_ORDER
#define WENT_UP(k, in_order) ((k) < (in_order))
#else
#define WENT_UP(k, in_order) true
#endif
#ifdef DOWN_IN_ORDER
#define WENT_DOWN(k, in_order) ((k) < (in_order))
#else
#define WENT_DOWN(k, in_order) true
#endif

/* What has its total leaves leaf r for the workers. */
inline release_rack(r) {
  for (a : 0 .. N - 1) {
    do
    :: RACK(a) == r && !IS_LAST(a) && released[a] < taken[a] && TOTAL_HAS(r, a, released[a]) ->
         sums[a] = sums[a] | BIT(released[a]);
         released[a]++
    :: RACK(a) != r && IS_LAST(a) && (from_above[RACK(a)] & BIT(let_down[RACK(a)])) &&
         TOTAL_HAS(r, a, let_down[RACK(a)]) ->
         sums[a] = sums[a] | BIT(let_down[RACK(a)]);
         let_down[RACK(a)]++
    :: else -> break
    od
  }
  a = 0
}

inline send_up(r, k) {
  part[(r) * K + (k)] = leaf_seen[LEAF_AT(r, LAST_OF(r), k)];
  rack_sums[r] = rack_sums[r] | BIT(k)
}

/* Leaf r has completed its sum of `which`. */
inline go_up(r, which) {
#ifdef UP_IN_ORDER
  do
  :: released[LAST_OF(r)] < taken[LAST_OF(r)] && LEAF_HAS(r, LAST_OF(r), released[LAST_OF(r)]) ->
       send_up(r, released[LAST_OF(r)]);
       released[LAST_OF(r)]++
  :: else -> break
  od
#else
  for (a : 0 .. K - 1) {
    if
    :: a < taken[LAST_OF(r)] && what[LAST_OF(r) * K + a] == which -> send_up(r, a)
    :: else
    fi
  }
  a = 0
#endif
}

inline take(w, k, v) {
  if
  :: leaf_tag[v] == PASS(w, k) + 1 ->
       assert((leaf_seen[v] & BIT(w)) == 0); /* a contribution counts twice */
       leaf_seen[v] = leaf_seen[v] | BIT(w)
  :: else ->
       leaf_tag[v] = PASS(w, k) + 1;
       leaf_seen[v] = BIT(w)
  fi;
  taken[w]++;
  if
#ifdef EARLY
  :: IS_LAST(w) -> go_up(RACK(w), what[w * K + k])
#else
  :: leaf_seen[v] == WHOLE_RACK(RACK(w)) -> go_up(RACK(w), what[w * K + k])
#endif
  :: else
  fi
}

/* Packet k of connection w comes to its worker's leaf. */
inline at_switch(w, k) {
  if
  :: !LEAF_KNOWS(RACK(w)) && IS_LAST(w) -> rack_raw[RACK(w)] = rack_raw[RACK(w)] | BIT(k)
  :: !LEAF_KNOWS(RACK(w)) && !IS_LAST(w) -> raw[w] = raw[w] | BIT(k)
  :: LEAF_KNOWS(RACK(w)) && k == taken[w] -> take(w, k, LEAF_AT(RACK(w), w, k))
  :: LEAF_KNOWS(RACK(w)) && k > taken[w] -> far[w] = 1
  :: LEAF_KNOWS(RACK(w)) && k < taken[w] && IS_LAST(w) ->
       if
       :: LEAF_HAS(RACK(w), w, k) -> if :: WENT_UP(k, released[w]) -> send_up(RACK(w), k) :: else fi
       :: LEAF_LOST(RACK(w), w, k) -> empties[w] = empties[w] | BIT(k)
       :: !LEAF_HAS(RACK(w), w, k) && !LEAF_LOST(RACK(w), w, k)
       fi
  :: LEAF_KNOWS(RACK(w)) && k < taken[w] && !IS_LAST(w) ->
       if
       :: k < released[w] && TOTAL_HAS(RACK(w), w, k) -> sums[w] = sums[w] | BIT(k)
       :: k < released[w] && !TOTAL_HAS(RACK(w), w, k) -> empties[w] = empties[w] | BIT(k)
       :: k >= released[w]
       fi
  fi
}

/* The spine has completed the total of `which`. */
inline go_down(which) {
  for (a : 0 .. 2 * K - 1) {
    if
    :: (at_spine_are[a / K] & BIT(a % K)) && what[LAST_OF(a / K) * K + a % K] == which ->
         totals[a / K] = totals[a / K] | BIT(a % K)
    :: else
    fi
  }
  a = 0
}

inline go_down_in_order() {
  for (a : 0 .. 1) {
    do
    :: (at_spine_are[a] & BIT(sent_down[a])) && SPINE_HAS(LAST_OF(a), sent_down[a]) ->
         totals[a] = totals[a] | BIT(sent_down[a]);
         sent_down[a]++
    :: else -> break
    od
  }
  a = 0
}

inline take_at_spine(r, k, v, workers) {
  at_spine_are[r] = at_spine_are[r] | BIT(k);
  if
  :: spine_tag[v] == PASS(LAST_OF(r), k) + 1 ->
       assert((spine_racks[v] & BIT(r)) == 0); /* a rack counts twice */
       spine_racks[v] = spine_racks[v] | BIT(r);
       spine_seen[v] = spine_seen[v] | (workers)
  :: else ->
       spine_tag[v] = PASS(LAST_OF(r), k) + 1;
       spine_racks[v] = BIT(r);
       spine_seen[v] = (workers)
  fi;
  if
  :: spine_racks[v] == 3 ->
       total_of[what[LAST_OF(r) * K + k]] = spine_seen[v];
#ifdef DOWN_IN_ORDER
       go_down_in_order()
#else
       go_down(what[LAST_OF(r) * K + k])
#endif
  :: else
  fi
}

/* Packet k of the connection of rack r's last worker comes to the spine, with what these workers have sent. */
inline at_spine(r, k, workers) {
  if
  :: !SPINE_KNOWS -> totals_raw[r] = totals_raw[r] | BIT(k)
  :: SPINE_KNOWS && !(at_spine_are[r] & BIT(k)) -> take_at_spine(r, k, AT(LAST_OF(r), k), workers)
  :: SPINE_KNOWS && (at_spine_are[r] & BIT(k)) ->
#ifdef NO_REPEAT
       skip
#else
       if
       :: SPINE_HAS(LAST_OF(r), k) -> if :: WENT_DOWN(k, sent_down[r]) -> totals[r] = totals[r] | BIT(k) :: else fi
       :: spine_tag[AT(LAST_OF(r), k)] > PASS(LAST_OF(r), k) + 1 -> empties[LAST_OF(r)] = empties[LAST_OF(r)] | BIT(k)
       :: else
       fi
#endif
  fi
}

/* Packet k of the connection of rack r's last worker comes to the other leaf. */
inline at_other_leaf(r, k, is_total) {
  if
  :: !LEAF_KNOWS(1 - r) && is_total -> sums[LAST_OF(r)] = sums[LAST_OF(r)] | BIT(k)
  :: !LEAF_KNOWS(1 - r) && !is_total -> raw[LAST_OF(r)] = raw[LAST_OF(r)] | BIT(k)
  :: LEAF_KNOWS(1 - r) && (from_above[r] & BIT(k)) ->
       if
       :: k < let_down[r] && TOTAL_HAS(1 - r, LAST_OF(r), k) -> sums[LAST_OF(r)] = sums[LAST_OF(r)] | BIT(k)
       :: k < let_down[r] && !TOTAL_HAS(1 - r, LAST_OF(r), k) -> empties[LAST_OF(r)] = empties[LAST_OF(r)] | BIT(k)
       :: k >= let_down[r]
       fi
  :: LEAF_KNOWS(1 - r) && !(from_above[r] & BIT(k)) && is_total && LEAF_HAS(1 - r, LAST_OF(r), k) ->
       from_above[r] = from_above[r] | BIT(k);
       total_tag[LEAF_AT(1 - r, LAST_OF(r), k)] = PASS(LAST_OF(r), k) + 1;
       release_rack(1 - r)
  :: else ->
       assert(forgot); /* a leaf ends a job although no switch rebooted */
       without = without | BIT(1 - r)
  fi
}

#define PICK_RACK(set, I) PICK(set, I, 0) PICK(set, I, 1) PICK(set, I, 2) PICK(set, I, 3) PICK(set, I, 4)
#define EACH_RACK(set) PICK_RACK(set, 0) PICK_RACK(set, 1)
