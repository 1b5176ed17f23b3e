# Sourced. Tells how long the parts of a long script take. `part NAME COMMAND...` runs the command and adds a line to the
# file PARTS: its name, its seconds, and the seconds of processor time. `parts_table` prints that file. Scripts that a
# script runs add to the same file; without PARTS nothing is kept.
export PARTS=${PARTS:-/dev/null}

part() { # NAME COMMAND...; fails if the command does
  local name=$1 code=0 times TIMEFORMAT='%R %U %S'
  shift
  times=$(mktemp)
  { time "$@" 2>&3; } 3>&2 2>"$times" || code=$?
  awk -v name="$name" 'END { printf "%s\t%.0f\t%.0f\n", name, $1, $2 + $3 }' "$times" >>"$PARTS"
  rm "$times"
  return $code
}

# `beside NAME COMMAND...` starts a part that others run beside, because it waits for much of its time. `joined` waits for
# it, prints what it printed, and fails if it failed; without such a part it does nothing. One runs at a time.
beside_process=

beside() {
  beside_output=$(mktemp)
  part "$@" >"$beside_output" 2>&1 &
  beside_process=$!
}

joined() {
  local code=0
  [ -n "$beside_process" ] || return 0
  wait "$beside_process" || code=$?
  beside_process=
  cat "$beside_output"
  rm "$beside_output"
  return $code
}

parts_table() {
  awk -F '\t' -v all="$SECONDS" 'BEGIN { printf "%-32s %8s %14s\n", "part", "seconds", "processor s" }
    { printf "%-32s %8d %14d\n", $1, $2, $3; processor += $3 }
    END { printf "%-32s %8d %14d\n", "all, some beside others", all, processor }' "$PARTS"
}
