"""Checks the GPU code that nvcc made. It needs no GPU.

    python scripts/check_cuda_code.py CUOBJDUMP LIBRARY TARGETS...

It checks that

* every kernel is there for every target (sm_80 ...) and as PTX;
* no kernel spills registers or uses local memory;
* no kernel uses atomics or a fused multiply-add, or flushes subnormals;
* kernels move 16 bytes at a time, except those of 64-bit types and of wide floats, which go word by word, and those of
  packed flags, which are rare.
"""

from __future__ import annotations

import collections
import re
import subprocess
import sys

MOST_REGISTERS = 64  # An SM has 65,536. So it runs at least 1,024 threads, which are enough to keep the memory busy.
_MEMORY = re.compile(r"\b(LDG|STG)\.E\.(?:[A-Z]+\.)*(\d+)")
_FORBIDDEN = re.compile(r"\b(ATOMG?|RED|LDL|STL|FFMA|DFMA|HFMA2)\b|\bF(?:MUL|ADD)\S*\.FTZ")


def main(cuobjdump: str, library: str, targets: list[str]) -> None:
    failures = []
    kernels: dict[str, set[str]] = collections.defaultdict(set)
    for target, kernel, instructions in functions(run(cuobjdump, "-sass", library)):
        kernels[target].add(kernel)
        failures += [f"{target} {kernel}: {fault}" for fault in faults(kernel, instructions)]
    largest = 0
    for kernel, usage in resources(run(cuobjdump, "-res-usage", library)):
        largest = max(largest, usage["REG"])
        if usage["REG"] > MOST_REGISTERS or usage["STACK"] or usage["LOCAL"]:
            failures.append(f"{kernel}: {usage}")
    for target in targets:
        if kernels[target] != kernels[targets[0]] or not kernels[target]:
            failures.append(f"{target} has {len(kernels[target])} kernels, {targets[0]} {len(kernels[targets[0]])}")
    ptx = set(re.findall(r"\.entry (\w+)", run(cuobjdump, "-ptx", library)))
    if ptx != kernels[targets[0]]:
        failures.append(f"the PTX has {len(ptx)} kernels, {targets[0]} {len(kernels[targets[0]])}")
    if failures:
        sys.exit("\n".join(failures))
    print(
        f"{len(kernels[targets[0]])} kernels for each of {', '.join(targets)} and as PTX, at most {largest} registers"
    )


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def functions(sass: str):
    """Yields (target, mangled name, instructions) for each function in the output of `cuobjdump -sass`."""
    for code in re.split(r"^Fatbin elf code:", sass, flags=re.MULTILINE)[1:]:
        target = re.search(r"^arch = (\w+)", code, re.MULTILINE).group(1)
        for function in re.split(r"^\s*Function : ", code, flags=re.MULTILINE)[1:]:
            kernel, _, body = function.partition("\n")
            yield target, kernel.strip(), body


def resources(usage: str):
    """Yields (mangled name, {"REG": ..., "STACK": ..., "LOCAL": ...}) for each function of `cuobjdump -res-usage`."""
    for name, numbers in re.findall(r"Function (\S+):\n\s*(.*)", usage):
        yield name, {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", numbers)}


def faults(kernel: str, instructions: str):
    """Yields what is wrong with a kernel's instructions."""
    yield from sorted({f"uses {found.group(0)}" for found in _FORBIDDEN.finditer(instructions)})
    widths = collections.defaultdict(set)
    for kind, width in _MEMORY.findall(instructions):
        widths[kind].add(width)
    # The elements of these have several words, which go one by one; packed flags are rare.
    if re.search("Float64Form|IntegerFormIm|WideFloatForm|packed_flag", kernel):
        return
    if "128" not in widths["LDG"] | widths["STG"]:
        yield "has no 16-byte access"
    if "Float32" in kernel:  # its elements are as wide as its words, so both can move 16 bytes at a time
        read = "dequantize" not in kernel and "apply_flag" not in kernel
        if "128" not in widths["LDG" if read else "STG"]:
            yield f"does not {'read' if read else 'write'} float32 16 bytes at a time"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
