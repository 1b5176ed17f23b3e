from typing import Annotated

import numpy
from numpy.typing import NDArray

def codec_names() -> list[str]: ...
def codec_name() -> str: ...
def block_exponents(
    codec: str,
    x: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    block_size: int,
    finite_only: bool = False,
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...
def quantize(
    codec: str,
    x: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    exponents: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    workers: int,
    block_size: int,
) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...
def dequantize(
    codec: str,
    words: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    exponents: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    workers: int,
    block_size: int,
) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...
def encode_elements(
    x: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    exponents: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    block_size: int,
    word_bits: int,
    workers: int = 1,
    seed: int | None = None,
) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...
def decode_elements(
    words: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    exponents: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    block_size: int,
    word_bits: int,
    workers: int = 1,
    shift: int = 0,
) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...
def non_finite_flags(
    codec: str, x: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]: ...
def apply_non_finite_flags(
    codec: str,
    flags: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    y: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...
