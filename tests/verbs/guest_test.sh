#!/bin/dash
# Runs every case of guest_test over a good wire, then some over a bad one. netem works on the packets that leave a
# device. So on rdma0 it spoils what Soft-RoCE sends, and on the peer's eth0 what the switch or a
# ring's worker sends.
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
wire() { # CASES WORDS...: runs cases over a wire that netem spoils in this way
  cases=$1
  shift
  echo "wire: $*"
  on_both "$@" || failed=$((failed + 1))
  for case in $cases; do run $case; done
  echo "  packets lost on the two ways: $(losses | sed 's/dropped //' | tr '\n' ' ')"
  on_both
}

for case in interoperate refused-devices wrong-keys wrong-icrc recover psn-wrap mixed sum-16-bits sum-8-bits mixed-8-bits restart sum-100MB; do run $case; done
sums="sum sum-8-bits"
wire "$sums" loss random 0.5%
wire "$sums" duplicate 1%
wire "$sums" delay 1ms reorder 1% 50%
wire "$sums" corrupt 0.5%

# Rings of reliable connections.
ip -n peer address add 10.9.0.3/24 dev eth0
for case in ring ring-of-devices; do run $case; done
wire ring loss random 0.5%
wire ring delay 1ms reorder 1% 50%

# A transparent switch stands in the wire: its ports p0, p1 and p2 lead to Soft-RoCE, to the peer and to a third host.
ip netns add switch
ip netns add third
ip -n peer link set eth0 netns switch
ip -n switch link set eth0 name p0
ip -n switch link set p0 up
port() { # PORT NAMESPACE NUMBER
  ip -n switch link add "$1" mtu 4200 type veth peer name eth0 netns "$2" address 02:00:00:00:00:0"$3" mtu 4200
  ip -n "$2" address add 10.9.0."$3"/24 dev eth0
  ip -n "$2" link set eth0 up
  ip -n switch link set "$1" up
}
port p1 peer 2
port p2 third 3
for case in ring-through-switch ring-with-late-worker; do run $case; done
wire ring-through-switch loss random 0.5%
wire ring-through-switch duplicate 1%
wire ring-through-switch delay 1ms reorder 1% 50%
echo "failed cases: $failed"
[ $failed -eq 0 ]
