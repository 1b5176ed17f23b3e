#!/usr/bin/env bash
# Usage: run_perftest.sh FOLDER. Two guests of ../verbs/build_image.sh, each with Soft-RoCE, measure with perftest's
# ib_write_bw through a transparent switch, to which their connection is none of a ring. Every frame must leave the switch
# as it came. FOLDER holds the guest. `jaxina` and `python` must be on PATH, and perftest installed. Needs root, for a
# network namespace.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
export JAXINA_GUEST_TIMEOUT=${JAXINA_GUEST_TIMEOUT:-120}
. "$here/two_taps.sh"

"${inside[@]}" jaxina switch --transparent tap1,tap2 --bind 127.0.0.1:51000 --quiet &
children+=($!)
"${inside[@]}" python "$here/frames_pass.py" tap1 tap2 > "$work/frames" &
watch=$!
children+=("$watch")

printf '#!/bin/dash\nexec /ib_write_bw -c RC -d rxe0 -x 1 -F -s 16384 -n 400\n' > "$work/test1"
cat > "$work/test2" <<'SH'
#!/bin/dash
for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do # the other guest may still be booting
  /ib_write_bw -c RC -d rxe0 -x 1 -F -s 16384 -n 400 10.9.0.1 && exit 0
  /bin/busybox sleep 1
done
exit 1
SH
chmod +x "$work/test1" "$work/test2"
code=0
run_guests "$(command -v ib_write_bw)" || code=1
kill -TERM "$watch"
wait "$watch" || code=1
grep -a -A1 'BW average' "$work/guest2.log" || code=1
cat "$work/frames"
[ $code -eq 0 ] || cat "$work"/guest*.log
exit $code
