#!/usr/bin/env bash
# Usage: scripts/test_verbs.sh VENV. Tests the verbs transport on Linux's Soft-RoCE, in a virtual machine made of
# Debian's packages. If that is not possible, it says why and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
export PATH="$PWD/$venv/bin:$PATH" # for cmake and ninja
start=$SECONDS
packages=(qemu-system-x86 libibverbs-dev ibverbs-providers rdma-core iproute2 kmod cpio xz-utils dash perftest)

skip() {
  echo "test-verbs: skipped: $1"
  exit 0
}
missing() {
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || echo "$package"
  done
}
command -v apt-get >/dev/null || skip "it is made of Debian's packages, and this is not Debian"
[ "$(uname -m)" = x86_64 ] || skip "the virtual machine is one for x86_64"
mapfile -t wanted < <(missing)
if [ ${#wanted[@]} -gt 0 ]; then
  [ "$(id -u)" = 0 ] || skip "as root: apt-get install ${wanted[*]}"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -q && apt-get install -q -y --no-install-recommends "${wanted[@]}"; } >/dev/null 2>&1 ||
    skip "these packages cannot be installed here: ${wanted[*]}"
fi

. scripts/compiler_cache.sh
cmake -S . -B build/native -G Ninja -DJAXINA_BUILD_TESTS=ON >/dev/null
cmake --build build/native -j "$(nproc)" --target verbs_guest_test verbs_capture ring_guest ring_switch
tests/verbs/build_image.sh build/verbs-guest
echo "built and prepared in $((SECONDS - start)) s"
start=$SECONDS
tests/verbs/run_in_guest.sh build/verbs-guest tests/verbs/guest_test.sh build/native/tests/verbs/verbs_guest_test
echo "a message of 16 packets and its reply, as another decoder reads them"
tests/verbs/run_in_guest.sh build/verbs-guest tests/verbs/capture.sh build/native/tests/verbs/verbs_capture > build/verbs-guest/capture.txt
sed -n "/^message/,\$p" build/verbs-guest/capture.txt | python tests/verbs/decode_message.py
if [ "$(id -u)" = 0 ]; then
  echo "a ring of two virtual machines, with a transparent switch between them"
  tests/netreduce/run_two_guests.sh build/verbs-guest build/native/tests/netreduce/ring_guest \
    build/native/tests/netreduce/ring_switch
  echo "perftest between two virtual machines, through a transparent switch"
  tests/netreduce/run_perftest.sh build/verbs-guest
  echo "a job in Python of two virtual machines over their RDMA devices, without a switch and through one"
  tests/netreduce/run_python_guests.sh build/verbs-guest "$venv"
fi
echo "test-verbs: passed, $((SECONDS - start)) s in the virtual machine"
