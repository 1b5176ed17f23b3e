# Sourced. Says how long each part of a long script takes. `part NAME COMMAND...` runs the command and adds a line to the
# file PARTS: its name, its seconds, and the processor's seconds. `parts_table` prints the file. A script that is run
# by another adds to the other's file.
export PARTS=${PARTS:-$(mktemp)}

part() { # NAME COMMAND...; exits as the command does
  local name=$1 code=0 took TIMEFORMAT='%R %U %S'
  shift
  took=$(mktemp)
  { time "$@" 2>&3; } 3>&2 2>"$took" || code=$?
  awk -v name="$name" 'END { printf "%s\t%.0f\t%.0f\n", name, $1, $2 + $3 }' "$took" >>"$PARTS"
  rm "$took"
  return $code
}

parts_table() {
  awk -F '\t' 'BEGIN { printf "%-32s %8s %12s\n", "part", "seconds", "processor" }
    { printf "%-32s %8d %12d\n", $1, $2, $3; wall += $2; processor += $3 }
    END { printf "%-32s %8d %12d\n", "all", wall, processor }' "$PARTS"
}
