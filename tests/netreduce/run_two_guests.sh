#!/usr/bin/env bash
# Usage: run_two_guests.sh FOLDER RING_GUEST RING_SWITCH. Two guests of ../verbs/build_image.sh, each a worker with
# Soft-RoCE, sum in a ring. The transparent switch stands between them. FOLDER holds the guest. Needs root, for a network
# namespace.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 program=$2 switch_program=$3
export JAXINA_GUEST_TIMEOUT=${JAXINA_GUEST_TIMEOUT:-120}
. "$here/two_taps.sh"

"${inside[@]}" ip link add own type veth peer name own-port
"${inside[@]}" ip link set own-port mtu 4200 up
"${inside[@]}" ip link set own mtu 4200 up
"${inside[@]}" ip address add 10.9.0.254/24 dev own
"${inside[@]}" "$switch_program" tap1 tap2 own-port > "$work/switch.log" &
switch=$!
children+=("$switch")
for guest in 1 2; do
  printf '#!/bin/dash\nexec /ring_guest %s\n' $((guest - 1)) > "$work/test$guest"
  chmod +x "$work/test$guest"
done
code=0
run_guests "$program" || code=1
kill -TERM "$switch"
wait "$switch" || code=1
cat "$work/switch.log"
grep -ah 'worker' "$work"/guest*.log || code=1
[ $code -eq 0 ] || cat "$work"/guest*.log
exit $code
