#!/usr/bin/env bash
# Usage: run_in_guest.sh FOLDER SCRIPT [FILE...]. Boots the guest of build_image.sh and runs SCRIPT (dash) in it. The
# FILEs, and the libraries of programs among them, are in the guest's / too. Exits with 0 if SCRIPT did. Prints the
# guest's console.
#
# With JAXINA_GUEST_WIRE="N SOCKET", the guest is 10.9.0.N. Its frames are datagrams from the unix socket SOCKET to
# SOCKET.switch. With JAXINA_GUEST_TAP="N INTERFACE" they go to and from that tap interface. Without either, both ends of
# the wire are in the guest. With JAXINA_GUEST_FILES=yes the guest can mount this host's files, to read them only, by 9p
# from "host".
set -euo pipefail
folder=$1 script=$2
shift 2
seconds=${JAXINA_GUEST_TIMEOUT:-400}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/files"
install "$script" "$work/files/test"
for file in "$@"; do
  install "$file" "$work/files/"
  for library in $(ldd "$file" 2>/dev/null | grep -oE '/[^ ]+'); do
    install -D "$library" "$work/files$library"
  done
done
(cd "$work/files" && find . | cpio --quiet -o -H newc) > "$work/extra.cpio"
cat "$folder/base.cpio" "$work/extra.cpio" | gzip -1 > "$work/initramfs"

wire=() address=
if [ -n "${JAXINA_GUEST_WIRE:-}" ]; then
  read -r number socket <<< "$JAXINA_GUEST_WIRE"
  address=10.9.0.$number
  wire=(-netdev "dgram,id=wire,local.type=unix,local.path=$socket,remote.type=unix,remote.path=$socket.switch"
    -device "virtio-net-pci,netdev=wire,mac=02:00:00:00:00:0$number,host_mtu=4200")
fi
if [ -n "${JAXINA_GUEST_TAP:-}" ]; then
  read -r number interface <<< "$JAXINA_GUEST_TAP"
  address=10.9.0.$number
  wire=(-netdev "tap,id=wire,ifname=$interface,script=no,downscript=no"
    -device "virtio-net-pci,netdev=wire,mac=02:00:00:00:00:0$number,host_mtu=4200")
fi
if [ "${JAXINA_GUEST_FILES:-no}" = yes ]; then
  wire+=(-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap)
fi
code=0
timeout -k 5 "$seconds" qemu-system-x86_64 -accel tcg,thread=multi -cpu "${JAXINA_GUEST_CPU:-max}" -smp "${JAXINA_GUEST_CPUS:-2}" -m 1536 \
  -nographic -nodefaults -serial stdio -no-reboot -device isa-debug-exit,iobase=0xf4,iosize=4 \
  "${wire[@]}" -kernel "$folder/vmlinux" -initrd "$work/initramfs" \
  -append "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check jaxina_address=$address" </dev/null || code=$?
case $code in
  33) exit 0 ;;
  35) echo "the test in the guest failed" >&2; exit 1 ;;
  124 | 137) echo "the guest did not end within $seconds s" >&2; exit 1 ;;
  *) echo "QEMU ended with code $code before the test did" >&2; exit 1 ;;
esac
