# Sourced. `choose_parts [NAME...]` writes the parts that a script shall run into the array `chosen`: those named, or all of
# the array `parts`. A name that is none of them ends the script.
choose_parts() {
  unset PARTS # `make PARTS=...` exports it, and parts.sh would take it for the name of its file
  chosen=("$@")
  [ $# -gt 0 ] || chosen=("${parts[@]}")
  local part
  for part in "${chosen[@]}"; do
    if ! [[ " ${parts[*]} " == *" $part "* ]]; then
      echo "no part is called $part; there are: ${parts[*]}" >&2
      exit 2
    fi
  done
}
