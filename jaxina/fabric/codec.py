"""How an update becomes bytes and back: by any of the compressors of `jaxina.compressors`."""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.model import Vector, vector_of

if TYPE_CHECKING:
    from jaxina.compressors import Compressor, Context

_PROPOSED = struct.Struct("!I")  # how many bytes the proposal takes


class Codec:
    """Packs updates of a job.

    An update is one leaf of one worker, so what workers of an all-reduce agree on before they encode, such as an
    exponent, is the worker's own proposal, and travels in front.

    Args:
      spec: of the compressor. "none" needs no JAX.
      elements: of an update.

    Raises:
      InvalidArgumentError: there is no such compressor, or it needs rounds with other workers.
    """

    def __init__(self, spec: str, elements: int) -> None:
        self.spec = spec
        self.elements = elements
        self._compressor: Compressor | None = None
        if spec != "none":
            from jaxina import compressors

            self._compressor = compressors.get(spec)
            _check_rounds(self._compressor, spec)
            self._compile(self._compressor)

    def memory(self) -> Any:
        """The state of a worker's encoder before its first update: the step, and the compressor's arrays."""
        if self._compressor is None:
            return None
        import jax
        import jax.numpy as jnp

        state = self._compressor.init(jnp.zeros(self.elements, jnp.float32), jax.random.key(0))
        return {"step": state["step"], "leaves": state["leaves"]}

    def encode(self, update: Vector, name: int, memory: Any) -> tuple[bytes, Vector, Any]:
        """Packs an update.

        Args:
          update: float32[elements], finite.
          name: of the update. Random numbers depend on it.
          memory: the worker's state.

        Returns:
          The bytes, what the server decodes of them, and the next state.

        Raises:
          InvalidArgumentError: the update has another shape or dtype, or a number that is not finite.
        """
        if update.shape != (self.elements,) or update.dtype != np.float32:
            raise InvalidArgumentError(
                f"an update is float32[{self.elements}], not {update.dtype} of shape {update.shape}"
            )
        if not np.isfinite(update).all():
            raise InvalidArgumentError("an update has a number that is not finite: it would spoil the model")
        if self._compressor is None:
            return update.astype("<f4").tobytes(), update.copy(), None
        from jaxina.compressors import packing

        proposal, payload, decoded, memory = self._encode(update, memory, *_halves(name))
        proposed = packing.to_bytes(proposal, self._compressor.propose_fields())
        text = _PROPOSED.pack(len(proposed)) + proposed
        return text + self._compressor.to_bytes(payload, self._context(*_halves(name), proposal)), decoded, memory

    def decode(self, text: bytes, name: int) -> Vector:
        """Unpacks an update.

        Raises:
          InvalidArgumentError: the bytes are not what `encode` makes, or give a number that is not finite.
        """
        update = vector_of(text) if self._compressor is None else self._decompress(self._compressor, text, name)
        if update.shape != (self.elements,):
            raise InvalidArgumentError(f"an update has {len(update)} elements, and the model {self.elements}")
        if not np.isfinite(update).all():
            raise InvalidArgumentError("an update has a number that is not finite: it would spoil the model")
        return update

    def _decompress(self, compressor: Compressor, text: bytes, name: int) -> Vector:
        from jaxina.compressors import packing

        if len(text) < _PROPOSED.size:
            raise InvalidArgumentError(f"{len(text)} bytes are no update")
        (length,) = _PROPOSED.unpack_from(text)
        proposed, body = text[_PROPOSED.size : _PROPOSED.size + length], text[_PROPOSED.size + length :]
        agreed = packing.from_bytes(proposed, compressor.propose_fields(), self._proposal_like)
        payload = compressor.from_bytes(body, self._context(*_halves(name), agreed))
        return np.asarray(self._decode(payload, agreed, *_halves(name)), np.float32)

    def _compile(self, compressor: Compressor) -> None:
        """Makes the functions that encode and decode, once for all updates."""
        import jax
        import jax.numpy as jnp

        def encode(update: Any, memory: Any, high: Any, low: Any) -> tuple[Any, Any, Any, Any]:
            step, leaves = memory["step"], memory["leaves"]
            x = compressor.with_memory(update, leaves)
            proposal = compressor.propose(x)
            context = dataclasses.replace(self._context(high, low, proposal), step=step)
            payload, leaves = compressor.encode(x, leaves, context)
            decoded = compressor.mean(compressor.decode(payload, context), 1)
            following = {"step": step + 1, "leaves": compressor.remember(x - decoded, leaves)}
            return proposal, payload, decoded, following

        def decode(payload: Any, agreed: Any, high: Any, low: Any) -> Any:
            context = self._context(high, low, agreed)
            return compressor.mean(compressor.decode(payload, context), 1)

        self._proposal_like = jax.eval_shape(compressor.propose, jnp.zeros(self.elements, jnp.float32))
        compiled, self._decode = jax.jit(encode), jax.jit(decode)

        def encode_and_decode(update: Any, memory: Any, high: Any, low: Any) -> tuple[Any, Any, Vector, Any]:
            proposal, payload, _, memory = compiled(update, memory, high, low)
            # By the server's very program: another one may round in another way.
            return proposal, payload, np.asarray(self._decode(payload, proposal, high, low), np.float32), memory

        self._encode = encode_and_decode

    def _context(self, high: Any, low: Any, agreed: Any) -> Context:
        """What worker and server both know. The step is the worker's alone, so no decoding may depend on it."""
        import jax

        from jaxina.compressors import Context

        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), high), low)
        return Context(shape=(self.elements,), workers=1, key=key, agreed=agreed)


def _halves(name: int) -> tuple[np.uint32, np.uint32]:
    """A name as random keys take it."""
    return np.uint32(name >> 32), np.uint32(name & 0xFFFFFFFF)


def _check_rounds(compressor: Compressor, spec: str) -> None:
    from jaxina.compressors import Compressor
    from jaxina.compressors.narrow_words import NarrowWords

    if type(compressor).reduce not in (Compressor.reduce, NarrowWords.reduce):
        raise InvalidArgumentError(
            f"the compressor {spec!r} needs rounds with other workers, and an update is sent by one: choose another"
        )
