#!/usr/bin/env bash
# Usage: run_python_guests.sh FOLDER VENV. ring_program.py runs in two guests of ../verbs/build_image.sh as one job, each a
# worker with Soft-RoCE: first without a switch, then through `jaxina switch --transparent`, which stands between them. On
# the host it runs over udp. All sums must have the same bits, and so must the guests' models. FOLDER holds the guest.
# jaxina is installed in VENV. Needs root, for a network namespace.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 python=$(realpath -s "$2")/bin/python
seconds=${JAXINA_GUEST_TIMEOUT:-420}
unset JAXINA_GUEST_TIMEOUT
. "$here/two_taps.sh"
cd "$here/../.."

control=10.9.0.254:51000 coordinator=10.9.0.254:4000
"${inside[@]}" ip link add own type veth peer name own-port
"${inside[@]}" ip link set own-port mtu 4200 up
"${inside[@]}" ip link set own mtu 4200 up
"${inside[@]}" ip address add 10.9.0.254/24 dev own
"${inside[@]}" "$python" -m jaxina.cli switch --transparent tap1,tap2,own-port --bind $control --quiet > "$work/switch.log" 2>&1 &
children+=($!)
"${inside[@]}" "$python" -m jaxina.cli coordinator -n 2 --bind $coordinator > "$work/coordinator.log" 2>&1 &
children+=($!)
for guest in 1 2; do
  { cat "$here/python_guest.sh" && echo "worker $((guest - 1)) $coordinator $PWD $python netreduce netreduce=$control"; } > "$work/test$guest"
done
code=0
JAXINA_GUEST_TIMEOUT=$seconds JAXINA_GUEST_FILES=yes JAXINA_GUEST_CPUS=1 run_guests || code=1
"$python" -m jaxina.cli run -n 2 --aggregator udp "$here/ring_program.py" udp > "$work/host.log" 2>&1 || code=1
grep -ahoE '(refused|[a-z]+(=[0-9.:]+)? digest).*' "$work"/guest*.log "$work/host.log" || code=1
digests=$(grep -ahoE 'digest [0-9a-f]{64}' "$work"/guest*.log "$work/host.log")
trained=$(grep -ahoE 'trained [0-9a-f]{64}' "$work"/guest*.log) || code=1
[ "$(wc -l <<< "$trained")" = 4 ] && [ "$(sort -u <<< "$trained" | wc -l)" = 1 ] || code=1
[ "$(wc -l <<< "$digests")" = 6 ] && [ "$(sort -u <<< "$digests" | wc -l)" = 1 ] || code=1
[ $code -eq 0 ] || cat "$work"/guest*.log "$work"/{switch,coordinator,host}.log
exit $code
