#!/bin/dash
# Runs every case of guest_test over a good wire, then sums over a bad one. netem works on the packets that leave a
# device. So on rdma0 it spoils what Soft-RoCE sends, and on the peer's eth0 what the switch sends.
failed=0
on_both() { # [WORDS...]: sets tc's words for netem on both devices, or none for a good wire
  tc qdisc del dev rdma0 root 2>/dev/null
  ip netns exec peer tc qdisc del dev eth0 root 2>/dev/null
  [ $# -eq 0 ] && return
  tc qdisc add dev rdma0 root netem limit 20000 "$@" && ip netns exec peer tc qdisc add dev eth0 root netem limit 20000 "$@"
}
losses() {
  tc -s qdisc show dev rdma0 | grep -o 'dropped [0-9]*'
  ip netns exec peer tc -s qdisc show dev eth0 | grep -o 'dropped [0-9]*'
}
run() { /verbs_guest_test "$1" || { failed=$((failed + 1)); echo "$1 FAILED"; }; }
wire() { # WORDS...: sums over a wire that netem spoils in this way
  echo "wire: $*"
  on_both "$@" || failed=$((failed + 1))
  run sum
  run sum-8-bits
  echo "  packets lost on the two ways: $(losses | sed 's/dropped //' | tr '\n' ' ')"
  on_both
}

for case in interoperate wrong-keys wrong-icrc recover psn-wrap mixed sum-16-bits sum-8-bits mixed-8-bits restart sum-100MB; do run $case; done
wire loss random 0.5%
wire duplicate 1%
wire delay 1ms reorder 1% 50%
wire corrupt 0.5%
echo "failed cases: $failed"
[ $failed -eq 0 ]
