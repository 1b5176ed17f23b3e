#!/bin/dash
# The guest's first process. It brings up a wire: on this end (10.9.0.1) is Soft-RoCE, and on the other end (10.9.0.2) a
# network namespace "peer" with plain sockets. If the machine has a wire to the outside, Soft-RoCE is on that. Then it
# runs /test, and ends the machine with /test's exit code.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b mount -t tmpfs tmp /run
$b mount -t tmpfs tmp /tmp
while read -r module; do
  $b insmod /modules/"$module" || echo "cannot load $module"
done < /modules/order

ip link set lo up
address=$(sed -n 's/.*jaxina_address=\([^ ]*\).*/\1/p' /proc/cmdline)
if [ -n "$address" ]; then
  ip link set eth0 name rdma0
  ip link set rdma0 mtu 4200
  ip address add "$address/24" dev rdma0
  ip link set rdma0 up
else
  ip netns add peer
  ip link add rdma0 address 02:00:00:00:00:01 mtu 4200 type veth \
    peer name eth0 netns peer address 02:00:00:00:00:02 mtu 4200
  ip address add 10.9.0.1/24 dev rdma0
  ip link set rdma0 up
  ip -n peer address add 10.9.0.2/24 dev eth0
  ip -n peer link set eth0 up
  ip -n peer link set lo up
fi
rdma link add rxe0 type rxe netdev rdma0

/test
code=$?
# isa-debug-exit turns a byte n written to its port into QEMU's exit code 2n + 1.
printf "\\$(printf %o $((16 + (code != 0))))" | $b dd of=/dev/port bs=1 seek=244 2>/dev/null
$b reboot -f
