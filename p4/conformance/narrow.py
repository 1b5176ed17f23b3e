"""Passes whose words are not 32 bits each: how they lie in packets, and how they are summed.

After docs/narrow_words.md, docs/rdma.md and the table in rdma_engine/wire/packet.h. In the vectors, `words` of a pass
with a seed are its narrow words, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.vector import Job, Packet, Value
from conformance.words import wrap

FORMATS = {"int32": 0, "int16": 1, "int8": 2, "flags": 3}
BITS = {"int16": 16, "int8": 8}
SEED_WORDS = CHECK_WORDS = 2
_MOST_EXPONENTS = 64
_U64 = 2**64


def format_of(packet: Packet) -> str:
    return str(packet.fields.get("format", "int32"))


def random_word(seed: int, index: int) -> int:
    """Returns the upper half of SplitMix64's number `index`, counted from 0."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % _U64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % _U64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % _U64
    return (z ^ z >> 31) >> 32


def shift_of(workers: int) -> int:
    """Returns by how many bits the sum of so many workers is shifted: the least s with 2^s >= workers."""
    return (workers - 1).bit_length()


def rounded(words: Sequence[int], workers: int, seed: int) -> list[int]:
    """Divides sums by the power of two that is not below the number of workers. A seed of 0 rounds to nearest."""
    shift = shift_of(workers)
    if seed:
        return [(word * 2**32 + random_word(seed, i) * 2**shift) // 2 ** (32 + shift) for i, word in enumerate(words)]
    divided = [divmod(word, 2**shift) for word in words]
    return [whole + (2 * rest > 2**shift or (2 * rest == 2**shift and whole % 2)) for whole, rest in divided]


def combined(form: str, sums: Sequence[int], words: Sequence[int]) -> list[int]:
    """Adds an update's words to the sums so far, of which narrow ones never overflow."""
    if form == "flags":
        return [a | b for a, b in zip(sums, words, strict=True)]
    return [wrap(a + b) for a, b in zip(sums, words, strict=True)]


def raw(packet: Packet) -> list[int]:
    """Returns a pass's 32-bit words, as they lie in its packet."""
    words = list(packet["words"])
    if "seed" not in packet.fields:
        return words
    bits = BITS[format_of(packet)]
    seed = int(packet["seed"])
    return [wrap(seed >> 32), wrap(seed % 2**32), *packed(words, bits)]


def packed(words: Sequence[int], bits: int) -> list[int]:
    """Packs narrow words, the first into the highest bits. Zeros fill up the last 32-bit word."""
    assert all(-(2 ** (bits - 1)) <= word < 2 ** (bits - 1) for word in words)
    each = 32 // bits
    rows = [words[at : at + each] for at in range(0, len(words), each)]
    return [wrap(sum(word % 2**bits << 32 - bits * (i + 1) for i, word in enumerate(row))) for row in rows]


def unpacked(words: Sequence[int], bits: int) -> list[int]:
    fields = [word >> shift & 2**bits - 1 for word in words for shift in range(32 - bits, -1, -bits)]
    return [field - 2**bits if field >> (bits - 1) else field for field in fields]


def from_raw(form: str, words: Sequence[int]) -> dict[str, Value]:
    """Returns the fields that describe a pass's 32-bit words in a vector."""
    if form not in BITS or len(words) < SEED_WORDS:
        return {"words": tuple(words)}
    seed = words[0] % 2**32 << 32 | words[1] % 2**32
    return {"seed": seed, "words": tuple(unpacked(words[SEED_WORDS:], BITS[form]))}


def most_exponents(job: Job) -> int:
    """Returns how many blocks a chunk of a job has at most: 8-bit words take a quarter of the space."""
    return min(4 * job.blocks, _MOST_EXPONENTS) if job.narrow else job.blocks


def fits(job: Job, update: Packet) -> bool:
    """Returns whether a pass of the job can have this size."""
    form, words, exponents = format_of(update), len(raw(update)), len(update["exponents"])
    chunk, most = job.block * job.blocks, most_exponents(job)
    if form == "int32":
        # Exponents of narrow words are announced by passes without words.
        return words <= chunk and exponents <= (job.blocks if words else most)
    if not job.narrow or words > chunk + SEED_WORDS or exponents > most:
        return False
    if form == "flags":
        return True
    return words >= SEED_WORDS and (words - SEED_WORDS) * (32 // BITS[form]) <= most * job.block


# ---- the check of an RDMA result


def mix(number: int, value: int) -> int:
    """Mixes a number of 64 bits into one of 32: MurmurHash3's finalizer, once for each half, the lower first."""
    for half in (value % 2**32, value >> 32):
        number ^= half
        number ^= number >> 16
        number = number * 0x85EBCA6B % 2**32
        number ^= number >> 13
        number = number * 0xC2B2AE35 % 2**32
        number ^= number >> 16
    return number


def digest(exponents: Sequence[int]) -> int:
    number = 0
    for at in range(0, len(exponents), 8):
        number = mix(number, int.from_bytes(bytes(exponents[at : at + 8]), "little"))
    return number


def linear_sums(words: Sequence[int]) -> tuple[int, int]:
    """Returns the sum of the words, and their sum with weights that fall by 1 from word to word."""
    first = -(-len(words) // 16) * 16
    return wrap(sum(words)), wrap(sum((first - i) * word for i, word in enumerate(words)))


def check_of(words: Sequence[int], fingerprint: int, epoch: int, workers: int = 1) -> tuple[int, int]:
    """Returns the check that a worker sends behind these words, or that it expects behind those of a result, but for
    the exponents."""
    name = mix(fingerprint, epoch)
    plain, weighted = linear_sums(words)
    return wrap(plain + workers * name), wrap(weighted + workers * mix(name, epoch))
