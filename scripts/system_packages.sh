#!/usr/bin/env bash
# Checks that the system has what the build needs. As root on Debian it installs missing packages; otherwise it names
# them.
set -euo pipefail
python=${PYTHON:-python3}

compiles() { # SOURCE [LIBRARY...]: succeeds if the source compiles and links
  local program
  program=$(mktemp)
  printf '%s\n' "$1" | c++ -std=c++20 -x c++ - -o "$program" "${@:2}" 2>/dev/null
  local code=$?
  rm -f "$program"
  return $code
}

missing_packages() {
  command -v c++ >/dev/null && compiles 'int main() {}' || { echo g++; return; }
  compiles $'#include <libdeflate.h>\nint main() { return libdeflate_crc32(0, "", 0); }' -ldeflate || echo libdeflate-dev
  compiles $'#include <openssl/kdf.h>\n#if OPENSSL_VERSION_MAJOR < 3\n#error\n#endif\nint main() {}' || echo libssl-dev
  compiles $'#include <gtest/gtest.h>\nint main() {}' -lgtest -pthread || echo libgtest-dev
}

missing_python_packages() {
  "$python" -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
  "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    echo python3-dev
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "Python 3.11 or newer is needed; '$python' is not. Install python3, or name one: make setup PYTHON=python3.12" >&2
  exit 1
fi

# Packages that the build does not need. Without libibverbs-dev there is no transport for RDMA devices, which `make
# test-verbs` tests. Without the next four some tests are skipped, and `jaxina testbed` says what it lacks. ccache lets
# several builds share what they compile alike.
wished_packages() {
  compiles $'#include <infiniband/verbs.h>\nint main() {}' || echo libibverbs-dev
  command -v ip >/dev/null || echo iproute2
  command -v ethtool >/dev/null || echo ethtool
  command -v spin >/dev/null || echo spin
  command -v mpirun >/dev/null || echo openmpi-bin
  command -v ccache >/dev/null || echo ccache
}

install() { # PACKAGE...
  [ $# -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
  echo "installing Debian packages: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -q -y --no-install-recommends "$@"
}

mapfile -t wished < <(wished_packages)
install "${wished[@]}" || echo "going on without ${wished[*]}"

mapfile -t missing < <(missing_packages; missing_python_packages)
install "${missing[@]}"
mapfile -t missing < <(missing_packages; missing_python_packages)
[ ${#missing[@]} -eq 0 ] && exit 0
echo "missing system packages; as root: apt-get install ${missing[*]}" >&2
exit 1
