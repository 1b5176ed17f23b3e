"""What jaxina does to a whole lowered module: it merges neighbouring psums, names each, and lets each work in place.

**Merging.** JAX binds one psum per leaf of a pytree. Each becomes a custom call, and the token chains it to the one
before. A collective costs a few hundred microseconds whatever its size. So psums of one block that only the token
chains become one call with many operands, of up to `bucket_bytes` together. The merged call stands where the last of
them stood, and operations that use the results move behind it. All processes compile the same module, so all merge in
the same way.

**Names.** Each call gets an ``identity``: a hash of the module's whole text, the call's number among the module's
psums, and its groups. The aggregator compares identities. So processes that run different programs, or are at different
psums of one program, get a MismatchError even if shapes and types agree. The identity is part of the compiled program.
So it is the same in all processes, and after a load from the compilation cache.

**In place.** The result of a psum takes the memory of its operand, if an operation of the same block made the operand.
Otherwise XLA would regard the operand's memory as free once the psum has started, and give it to other operations.
These would then have to wait for the psum, and nothing would overlap. The memory of a block's parameter is not freed;
there, working in place would only make XLA copy the parameter first.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxina import _tracing_settings
from jaxina._jax_compat.lowering import as_dict, hlo, ir, ir_attribute

_METADATA = "mhlo.frontend_attributes"
_CONFIGURATION = "mhlo.backend_config"
_ALIASES = "output_operand_aliases"
_MARK = "jaxina_calls"  # frontend attribute of a module: the target of calls that it has

# A call is merged only if it has no other attributes than these. A sharding annotation, for example, prevents it.
_MERGEABLE = frozenset(
    (
        *("call_target_name", "called_computations", "api_version", "has_side_effect", "backend_config"),
        *(_CONFIGURATION, _ALIASES, "operand_layouts", "result_layouts"),
    )
)


def finish(module: ir.Module, targets: Sequence[str], bucket_bytes: int) -> None:
    """Merges and names the module's calls of the `targets`, and lets them work in place. It changes the module.

    Operand 0 and result 0 of each call are the token.
    """
    with module.context:
        for block, target in itertools.product(list(_blocks(module.operation)), targets):
            for view in block.operations:
                if _is_call(view.operation, target):
                    _set_own_precision(view.operation)
            _merge_in(block, target, bucket_bytes)
        program = digest(module)
        place = 0
        for block in _blocks(module.operation):
            for view in block.operations:
                if any(_is_call(view.operation, target) for target in targets):
                    _set_identity(view.operation, f"{program}:{place}")
                    _work_in_place(view.operation)
                    place += 1


def mark(module: ir.Module, target: str) -> None:
    """Marks a module that has calls of the target, for `is_marked`."""
    with module.context:
        blocks = _blocks(module.operation)
        if any(_is_call(view.operation, target) for block in blocks for view in block.operations):
            attributes = module.operation.attributes
            present = as_dict(attributes[_METADATA]) if _METADATA in attributes else {}
            attributes[_METADATA] = ir.DictAttr.get({**present, _MARK: ir.StringAttr.get(target)})


def is_marked(module: ir.Module, target: str) -> bool:
    """Whether `mark` has found calls of the target in this module."""
    attributes = module.operation.attributes
    present = as_dict(attributes[_METADATA]) if _METADATA in attributes else {}
    return _MARK in present and ir.StringAttr(present[_MARK]).value == target


def _set_own_precision(call: ir.Operation) -> None:
    """Gives the call the precision that its psum was bound with, if any (`_tracing_settings.with_precision`)."""
    metadata = as_dict(call.attributes[_METADATA]) if _METADATA in call.attributes else {}
    own = metadata.pop(_tracing_settings.PRECISION, None)
    if own is None:
        return
    numbers = [int(number) for number in ir.StringAttr(own).value.split()]
    configuration = as_dict(call.attributes[_CONFIGURATION])
    configuration["precision"] = ir_attribute(np.array(numbers, np.int64))
    call.attributes[_CONFIGURATION] = ir.DictAttr.get(configuration)
    if metadata:
        call.attributes[_METADATA] = ir.DictAttr.get(metadata)
    else:
        del call.attributes[_METADATA]


def split(module: ir.Module, start: str, done: str) -> None:
    """Inserts a call of `done` after each call of `start`. It changes the module.

    A call of `start` no longer works in place; its call of `done` does.
    """
    with module.context:
        for block in list(_blocks(module.operation)):
            for call in [view.operation for view in block.operations if _is_call(view.operation, start)]:
                _split(call, block, done)


def _split(call: ir.Operation, block: ir.Block, done: str) -> None:
    sums, operands = list(call.results)[1:], list(call.operands)[1:]
    layouts = list(ir.ArrayAttr(call.attributes["operand_layouts"]))[1:]
    identity = as_dict(call.attributes[_CONFIGURATION])["identity"]
    if _ALIASES in call.attributes:
        del call.attributes[_ALIASES]
    waits = ir.Operation.create(
        call.name,
        results=[value.type for value in sums],
        operands=[*sums, *operands],
        attributes={
            "call_target_name": ir.StringAttr.get(done),
            "api_version": call.attributes["api_version"],
            # Without a side effect XLA would drop the call where nothing uses the sum, and free the memory that the sum
            # is still being written to.
            "has_side_effect": ir.BoolAttr.get(True),
            _CONFIGURATION: ir.DictAttr.get({"identity": identity}),
            "operand_layouts": ir.ArrayAttr.get([*layouts, *layouts]),
            "result_layouts": ir.ArrayAttr.get(layouts),
            _ALIASES: ir.ArrayAttr.get(
                [
                    hlo.OutputOperandAlias.get(
                        output_tuple_indices=[place] if len(sums) > 1 else [],
                        operand_index=place,
                        operand_tuple_indices=[],
                    )
                    for place in range(len(sums))
                ]
            ),
        },
        loc=call.location,
        ip=ir.InsertionPoint(_first_use(call, block)),
    )
    for old, new in zip(sums, waits.results, strict=True):
        old.replace_all_uses_except(new, waits)


def _first_use(call: ir.Operation, block: ir.Block) -> ir.Operation:
    """The first operation of the block that uses a sum of the call; the block's last operation if none does."""
    sums = set(list(call.results)[1:])
    after = itertools.dropwhile(lambda operation: operation != call, (view.operation for view in block.operations))
    operation = call
    for operation in itertools.islice(after, 1, None):
        if any(value in sums for value in _used(operation)):
            break
    return operation


def _blocks(operation: ir.Operation) -> Iterator[ir.Block]:
    """Yields all blocks inside the operation, in an order that depends on the program alone."""
    for region in operation.regions:
        for block in region.blocks:
            yield block
            for view in block.operations:
                yield from _blocks(view.operation)


def _is_call(operation: ir.Operation, target: str) -> bool:
    return (
        operation.name == "stablehlo.custom_call"
        and ir.StringAttr(operation.attributes["call_target_name"]).value == target
    )


class _Bucket:
    """Calls of one block that will be merged, and the operations that must then follow the merged call."""

    def __init__(self, first: ir.Operation):
        self.calls = [first]
        self.bytes = _bytes(first)
        self.dependent = set(list(first.results)[1:])
        self.moved: list[ir.Operation] = []  # dependent operations between the calls
        self.waiting: list[ir.Operation] = []  # dependent operations after the last call

    def takes(self, call: ir.Operation, limit: int) -> bool:
        last = self.calls[-1]
        return (
            call.operands[0] == last.results[0]
            and self.bytes + _bytes(call) <= limit
            and call.attributes[_CONFIGURATION] == last.attributes[_CONFIGURATION]
            and _MERGEABLE.issuperset((*call.attributes, *last.attributes))
            and not self.feeds(call)
        )

    def feeds(self, operation: ir.Operation) -> bool:
        return any(value in self.dependent for value in _used(operation))

    def add(self, call: ir.Operation) -> None:
        self.calls.append(call)
        self.bytes += _bytes(call)
        self.dependent.update(list(call.results)[1:])
        self.moved += self.waiting
        self.waiting = []

    def pass_by(self, operation: ir.Operation) -> None:
        if self.feeds(operation):
            self.dependent.update(operation.results)
            self.waiting.append(operation)

    def close(self) -> None:
        """Replaces the calls by one merged call."""
        if len(self.calls) == 1:
            return
        first, last = self.calls[0], self.calls[-1]
        operands = [value for call in self.calls for value in list(call.operands)[1:]]
        attributes = dict(last.attributes.items())
        attributes["operand_layouts"] = _joined([call.attributes["operand_layouts"] for call in self.calls])
        attributes["result_layouts"] = _joined([call.attributes["result_layouts"] for call in self.calls])
        merged = ir.Operation.create(
            last.name,
            results=[first.results[0].type, *(value.type for value in operands)],
            operands=[first.operands[0], *operands],
            attributes=attributes,
            loc=last.location,
            ip=ir.InsertionPoint(last),
        )
        behind = merged
        for operation in self.moved:
            operation.move_after(behind)
            behind = operation
        last.results[0].replace_all_uses_with(merged.results[0])
        replaced = [value for call in self.calls for value in list(call.results)[1:]]
        for old, new in zip(replaced, list(merged.results)[1:], strict=True):
            old.replace_all_uses_with(new)
        for call in reversed(self.calls):
            call.erase()


def _merge_in(block: ir.Block, target: str, limit: int) -> None:
    bucket: _Bucket | None = None
    for operation in [view.operation for view in block.operations]:
        if not _is_call(operation, target):
            if bucket:
                bucket.pass_by(operation)
        elif bucket and bucket.takes(operation, limit):
            bucket.add(operation)
        else:
            if bucket:
                bucket.close()
            bucket = _Bucket(operation)
    if bucket:
        bucket.close()


def _used(operation: ir.Operation) -> Iterator[ir.Value[Any]]:
    """Yields the values that the operation and all operations in its regions use."""
    yield from operation.operands
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _used(inner.operation)


def _bytes(call: ir.Operation) -> int:
    return sum(_byte_size(ir.RankedTensorType(value.type)) for value in list(call.operands)[1:])


def _byte_size(tensor: ir.RankedTensorType) -> int:
    element: Any = tensor.element_type
    parts = 1
    if isinstance(element, ir.ComplexType):
        element, parts = element.element_type, 2
    return math.prod(tensor.shape) * parts * max(1, element.width // 8)


def _work_in_place(call: ir.Operation) -> None:
    made_here = [place for place, value in enumerate(call.operands) if place and not isinstance(value.owner, ir.Block)]
    call.attributes[_ALIASES] = ir.ArrayAttr.get(
        [
            hlo.OutputOperandAlias.get(output_tuple_indices=[place], operand_index=place, operand_tuple_indices=[])
            for place in made_here
        ]
    )


def _joined(layouts: list[ir.Attribute]) -> ir.Attribute:
    """The layouts of the merged call: the token's once, then those of all other operands."""
    lists = [list(ir.ArrayAttr(layout)) for layout in layouts]
    return ir.ArrayAttr.get([lists[0][0], *(layout for one in lists for layout in one[1:])])


def digest(module: ir.Module) -> str:
    """A hash of what the module does. It does not depend on the module's place in the source code."""
    text = str(module.operation.get_asm(enable_debug_info=False))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def identity(module: ir.Module) -> int:
    """The module's identity: the first 64 bits of its digest."""
    return int(digest(module)[:16], 16)


def _set_identity(call: ir.Operation, name: str) -> None:
    configuration = as_dict(call.attributes[_CONFIGURATION])
    described = f"{name}:{configuration.get('groups')}:{configuration.get('group_size')}"
    digest = hashlib.blake2b(described.encode(), digest_size=8).digest()
    configuration["identity"] = ir.IntegerAttr.get(
        ir.IntegerType.get_signless(64), int.from_bytes(digest, "little", signed=True)
    )
    call.attributes[_CONFIGURATION] = ir.DictAttr.get(configuration)
