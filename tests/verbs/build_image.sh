#!/usr/bin/env bash
# Usage: build_image.sh FOLDER. Makes FOLDER/vmlinux and FOLDER/base.cpio: a guest in which Soft-RoCE (rdma_rxe) runs.
# It uses only Debian's packages: a kernel image, which is unpacked but not installed, and this host's iproute2 and
# libibverbs. Everything that is downloaded and built stays in FOLDER. A second call does nothing.
set -euo pipefail
folder=$1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
cd "$folder"
[ -f complete ] && [ complete -nt "$here/build_image.sh" ] && [ complete -nt "$here/init.sh" ] && exit 0

# Modules in the order of loading. rxe computes ICRCs with crc32_generic, but no module depends on it.
modules='virtio_pci virtio_net veth crc32_generic ib_uverbs rdma_rxe sch_netem 9p 9pnet_virtio'
programs='dash ip tc rdma grep sed tr'

download() { # PACKAGE: prints its .deb, which it downloads into this folder if need be
  ls "$1"_*.deb >/dev/null 2>&1 || apt-get download -o APT::Sandbox::User=root -q "$1" >&2
  ls "$1"_*.deb | head -1
}

kernel_package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -1)
kernel=$(download "$kernel_package")
release=${kernel_package#linux-image-}
if [ ! -d "unpacked/lib/modules/$release/kernel/fs" ]; then
  rm -rf unpacked
  mkdir unpacked
  dpkg-deb --fsys-tarfile "$kernel" | tar -x -C unpacked --wildcards './boot/vmlinuz*' "./lib/modules/$release/modules.*" \
    "./lib/modules/$release/kernel/drivers/*" "./lib/modules/$release/kernel/net/*" \
    "./lib/modules/$release/kernel/crypto/*" "./lib/modules/$release/kernel/fs/*" "./lib/modules/$release/kernel/arch/*" "./lib/modules/$release/kernel/lib/*"
  depmod -b unpacked "$release"
fi

# The boot image is a small program that unpacks an ELF file. QEMU can start the ELF file directly, in half the time.
python3 - "unpacked/boot/vmlinuz-$release" vmlinux <<'PY'
import lzma, sys

image = open(sys.argv[1], "rb").read()
start = image.index(b"\xfd7zXZ\x00")
kernel = lzma.LZMADecompressor().decompress(image[start:])
assert kernel.startswith(b"\x7fELF"), "this kernel is not packed with xz"
open(sys.argv[2], "wb").write(kernel)
PY

rm -rf root
mkdir -p root/{bin,dev,etc/libibverbs.d,lib64,modules,proc,run,sys,tmp}
install_with_libraries() { # PROGRAM-OR-LIBRARY: installs it at the same place in the guest, with the libraries that it links
  local file
  for file in "$1" $(ldd "$1" | grep -oE '/[^ ]+'); do
    [ -e "root$file" ] || install -D "$file" "root$file"
  done
}
for program in $programs; do
  path=$(PATH=$PATH:/usr/sbin:/sbin command -v "$program")
  install_with_libraries "$path"
  ln -sf "$path" "root/bin/$program"
done
ln -sf dash root/bin/sh
provider=$(ls /usr/lib/*/libibverbs/librxe-rdmav*.so)
install_with_libraries "$provider"
cp /etc/libibverbs.d/rxe.driver root/etc/libibverbs.d/
if [ -d /usr/lib/x86_64-linux-gnu/tc ]; then install -D -t root/usr/lib/x86_64-linux-gnu/tc /usr/lib/x86_64-linux-gnu/tc/*; fi
dpkg-deb --fsys-tarfile "$(download busybox-static)" | tar -xO ./bin/busybox > root/bin/busybox
chmod +x root/bin/busybox

for module in $modules; do
  modprobe -d "$PWD/unpacked" -S "$release" --show-depends "$module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
  cp "$file" root/modules/
  basename "$file"
done > root/modules/order
install "$here/init.sh" root/init
(cd root && find . | cpio --quiet -o -H newc) > base.cpio
touch complete
