#!/bin/dash
# Runs ring_program.py in a guest, with Python and all files of the host. run_python_guests.sh appends the call:
#   worker RANK COORDINATOR FOLDER PYTHON WAY...
# FOLDER is this repository. Whoever waits too long ends with the guest, so the job's own timeouts are long.
worker() {
  export JAXINA_RANK=$1 JAXINA_COORDINATOR=$2 JAXINA_PROCESSES=2 JAXINA_RDMA_DEVICE=rxe0
  export JAXINA_JOIN_TIMEOUT=3000 JAXINA_TIMEOUT=3000 JAXINA_HEARTBEAT_TIMEOUT=3000 PATH=/usr/sbin:/usr/bin
  export HOME=/run TMPDIR=/run # not /tmp, since the host's may hold the repository
  [ "$1" = 1 ] || export RING_PROGRAM_INTERFACE=rdma0
  folder=$3 python=$4
  shift 4
  /bin/busybox mkdir /host
  /bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host || return
  for shared in dev proc sys; do /bin/busybox mount -o bind /$shared /host/$shared; done
  /bin/busybox mount -t tmpfs run /host/run
  # JAX looks up the address of this host's name.
  /bin/busybox hostname "guest$JAXINA_RANK"
  echo "127.0.0.1 localhost\n10.9.0.$((JAXINA_RANK + 1)) guest$JAXINA_RANK" > /tmp/hosts
  /bin/busybox mount -o bind /tmp/hosts /host/etc/hosts
  exec /bin/busybox chroot /host /bin/sh -c 'cd "$0" && exec "$@"' "$folder" "$python" -u tests/netreduce/ring_program.py "$@"
}
