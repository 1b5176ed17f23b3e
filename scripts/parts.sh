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

parts_table() {
  awk -F '\t' 'BEGIN { printf "%-32s %8s %14s\n", "part", "seconds", "processor s" }
    { printf "%-32s %8d %14d\n", $1, $2, $3; seconds += $2; processor += $3 }
    END { printf "%-32s %8d %14d\n", "all", seconds, processor }' "$PARTS"
}
