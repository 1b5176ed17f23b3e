#!/usr/bin/env bash
# Usage: run_trial.sh FOLDER RC_RING "SWITCH OPTIONS" MESSAGES BYTES WINDOW TIMEOUT RETRIES LATE_S. Boots two guests of
# ../verbs/build_image.sh, joins them by summing_switch.py and runs RC_RING in both. FOLDER holds the guest. `python` on
# PATH must have numpy. Guests that do not end are ended after JAXINA_GUEST_TIMEOUT seconds (120).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 program=$2 switch_options=$3
shift 3
export JAXINA_GUEST_TIMEOUT=${JAXINA_GUEST_TIMEOUT:-120}
work=$(mktemp -d)
switch=
end() {
  [ -z "$switch" ] || { kill -TERM "$switch" 2>/dev/null && wait "$switch" || true; }
  for log in guest0 guest1 switch; do grep -av '^$' "$work/$log.log" || true; done
  rm -rf "$work"
}
trap end EXIT

# shellcheck disable=SC2086 # these are several words
python "$here/summing_switch.py" "$work/0" "$work/1" $switch_options > "$work/switch.log" 2>&1 &
switch=$!
guests=()
for rank in 0 1; do
  printf '#!/bin/dash\n/rc_ring %s %s\n' "$rank" "$*" > "$work/test$rank"
  chmod +x "$work/test$rank"
  JAXINA_GUEST_WIRE="$((rank + 1)) $work/$rank" "$here/../verbs/run_in_guest.sh" "$folder" "$work/test$rank" "$program" \
    > "$work/guest$rank.log" 2>&1 &
  guests+=($!)
done
code=0
for guest in "${guests[@]}"; do wait "$guest" || code=1; done
exit $code
