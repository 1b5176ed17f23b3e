#!/usr/bin/env bash
# Usage: scripts/test_wheels.sh WHEELS FOLDER. Installs the wheels where there is no compiler, no header and no git, and
# trains an example there with 4 workers: in a bare Debian that is made in FOLDER, and with each Python from 3.12 on that
# is found here. The bare Debian needs root and Debian's packages.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=$(realpath "$1")
folder=$2
mkdir -p "$folder"
folder=$(realpath "$folder")
root=$folder/root
start=$SECONDS

fail() {
  echo "test-wheels: $*" >&2
  exit 1
}
ls "$wheels"/*.whl >/dev/null || fail "there are no wheels in $wheels: make wheels"

# What pip and TLS are told here by variables, but for paths that are not there; pip's files are copied below.
variables=()
while IFS= read -r variable; do
  [[ ${variable#*=} == /* && ! -e ${variable#*=} ]] || variables+=("$variable")
done < <(env | grep -E '^(PIP_[A-Z_]+|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|[a-z]+_proxy|[A-Z]+_PROXY)=' || true)

make_root() {
  [ "$(id -u)" = 0 ] || fail "the bare Debian is made with debootstrap and chroot, which need root"
  command -v apt-get >/dev/null || fail "the bare Debian is made of Debian's packages, and this is not Debian"
  unshare --mount true || fail "this machine allows no mounts, and the bare Debian needs /proc and /dev"
  if ! command -v debootstrap >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -q -y --no-install-recommends debootstrap; } >"$folder/apt.log" 2>&1 ||
      fail "debootstrap cannot be installed: $folder/apt.log"
  fi
  # The mirror and the release that apt uses here.
  local mirror release
  read -r mirror release < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' |
    awk '$3 == "Debian" && $4 == "main" && $2 !~ /-/ { print $1, $2; exit }') || fail "apt names no mirror of Debian"
  rm -rf "$root"
  debootstrap --variant=minbase --include=python3,python3-venv "$release" "$root" "$mirror" >"$folder/debootstrap.log" 2>&1 ||
    fail "debootstrap failed: $folder/debootstrap.log"
  touch "$root/made"
}

copy_into_root() { # PATH...: what there is of them, to the same place
  local path
  for path in "$@"; do
    [ -f "$path" ] && install -D -m 644 "$(realpath "$path")" "$root$path"
  done
  return 0
}

in_root() { # COMMAND...: there, with mounts and processes that end with it
  unshare --mount --pid --fork --kill-child bash -c '
    mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "${variables[@]}" "$@"
}

in_bare_debian() {
  [ -e "$root/made" ] || make_root
  echo "== bare Debian, $((SECONDS - start)) s"
  copy_into_root /etc/resolv.conf /etc/hosts /etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf
  # Certificates and the like: every file that a variable or pip's configuration names.
  mapfile -t named < <({ printf '%s\n' "${variables[@]#*=}"; python3 -m pip config list | sed -E "s/^[^=]*='?([^']*)'?$/\1/"; } | grep '^/')
  copy_into_root "${named[@]}"
  rm -rf "$root/wheels" "$root/examples" "$root/test" "$root/place"
  mkdir "$root/place"
  cp -r "$wheels" "$root/wheels"
  cp -r examples "$root/examples"
  cp -r tests/wheels "$root/test"
  in_root bash -c 'cd /place && bash /test/install_and_train.sh python3 /wheels /examples jax'
}

with_other_python() { # VERSION JAX
  local python
  for python in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python; do
    python=$("$python" -c 'import sys, venv, ensurepip; print(sys.executable)' 2>/dev/null) && break
  done
  [ -n "$python" ] || { echo "== Python $1: not found on the path or under ~/.pyenv/versions"; return; }
  echo "== Python $1, $2"
  rm -rf "$folder/$1"
  mkdir -p "$folder/$1" "$folder/bin"
  ln -sf "$(command -v timeout)" "$(command -v dirname)" "$folder/bin/" # of the system nothing else
  (cd "$folder/$1" && env -i PATH="$folder/bin" HOME="$HOME" LANG=C.UTF-8 "${variables[@]}" \
    "$BASH" "$OLDPWD/tests/wheels/install_and_train.sh" "$python" "$wheels" "$OLDPWD/examples" "$2")
}

in_bare_debian
with_other_python 3.12 "jax==0.10.2" # the oldest
with_other_python 3.13 jax
with_other_python 3.14 jax
echo "test-wheels: passed, $((SECONDS - start)) s"
