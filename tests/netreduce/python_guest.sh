#!/bin/dash
# Runs a worker of ring_program.py in a guest, with Python and all files of the host. run_python_guests.sh appends the call:
#   worker NODE FOLDER PYTHON WAY...
# FOLDER is this repository.
worker() {
  node=$1 folder=$2 python=$3
  shift 3
  /bin/busybox mkdir /host
  /bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host || return
  for shared in dev proc sys; do /bin/busybox mount -o bind /$shared /host/$shared; done
  /bin/busybox mount -t tmpfs tmp /host/tmp
  set -- "$python" -m jaxina.cli run -n 1 --nodes 2 --node "$node" --coordinator 10.9.0.1:4000 --aggregator netreduce \
    tests/netreduce/ring_program.py "$@"
  [ "$node" = 1 ] || export RING_PROGRAM_INTERFACE=rdma0
  export PATH=/usr/sbin:/usr/bin HOME=/tmp JAXINA_RDMA_DEVICE=rxe0 JAXINA_JOIN_TIMEOUT=200 JAXINA_HEARTBEAT_TIMEOUT=100
  exec /bin/busybox chroot /host /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$folder" "$@"
}
