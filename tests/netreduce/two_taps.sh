# Sourced. Makes a network namespace with the interfaces tap1 and tap2, to which guests are connected, and removes it at the
# end. "${inside[@]}" runs a command there, and `run_guests [FILE]` both guests: guest N runs $work/testN, and its console
# goes to $work/guestN.log. Expects `here` and `folder` to be set. Processes in `children` are ended.
work=$(mktemp -d)
netns=jaxina-guests-$$
children=()
end() {
  for child in "${children[@]}"; do kill -TERM "$child" 2>/dev/null && wait "$child" || true; done
  ip netns del "$netns" 2>/dev/null || true
  rm -rf "$work"
}
trap end EXIT

ip netns add "$netns"
inside=(ip netns exec "$netns")
"${inside[@]}" sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 # no frames of its own
"${inside[@]}" ip link set lo up
for tap in tap1 tap2; do
  "${inside[@]}" ip tuntap add "$tap" mode tap vnet_hdr
  "${inside[@]}" ip link set "$tap" mtu 4200 up
done

run_guests() { # [FILE]
  local guests=() guest code=0
  for guest in 1 2; do
    JAXINA_GUEST_TAP="$guest tap$guest" "${inside[@]}" "$here/../verbs/run_in_guest.sh" "$folder" "$work/test$guest" "$@" \
      > "$work/guest$guest.log" 2>&1 &
    guests+=($!)
  done
  for guest in "${guests[@]}"; do wait "$guest" || code=1; done
  return $code
}
