"""A pickle reader that can build nothing but plain values: dict, list, tuple, str, bytes, int, float, bool, None.

The standard unpickler, even with `find_class` closed, follows memo indices that a hostile file states, and the hash of
a deeply nested key overflows the C stack. This one interprets the few opcodes that torch's pickler writes (formats.md
D) and the equal ones of other protocols, bounds every step, and keeps what was built when the file ends early.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MAX_OPERATIONS = 10_000_000
"""A ring of 20,000 entries with their stacks takes 4 to 8 million."""
_MAX_LONG_BYTES = 9


class PickleError(ValueError):
    """The bytes are no pickle of plain values."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The outermost value, and whether the file (or our patience) ended before the pickle did."""

    value: Any
    truncated: bool


@dataclass(slots=True)
class _Machine:
    """`stack` holds the values since the last mark, `outer` the stacks before it."""

    data: bytes
    position: int = 0
    stack: list[Any] = field(default_factory=list)
    outer: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise EOFError
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.position, self.position + 4096)
        if end < 0:
            raise EOFError
        piece = self.data[self.position : end]
        self.position = end + 1
        return piece

    def close_group(self) -> list[Any]:
        group = self.stack
        self.stack = self.outer.pop()
        return group

    def top(self, kind: type[Any]) -> Any:
        value = self.stack[-1]
        if not isinstance(value, kind):
            raise PickleError(f"no {kind.__name__} to fill")
        return value


def load(data: bytes) -> Loaded:
    """The plain value that `data` pickles.

    Raises:
        PickleError: it is no pickle, or asks for anything but plain values.
    """
    machine = _Machine(data)
    try:
        if _run(machine):
            return Loaded(machine.stack[-1], truncated=False)
    except EOFError:
        pass
    except (ValueError, TypeError, LookupError, OverflowError, struct.error) as error:
        raise PickleError(str(error) or type(error).__name__) from error
    return Loaded(_salvage(machine), truncated=True)


def _run(machine: _Machine) -> bool:
    """Interpret up to STOP (True) or the operation limit (False). The bulk of the opcodes is done in place."""
    length, memo, stack = len(machine.data), machine.memo, machine.stack
    data = machine.data + bytes(8)  # an operand may be read past the end; the next round then finds the end
    position = 0
    for _ in range(MAX_OPERATIONS):
        if position >= length:
            raise EOFError
        opcode = data[position]
        if opcode == 0x71:  # BINPUT
            memo[data[position + 1]] = stack[-1]
            position += 2
        elif opcode == 0x68:  # BINGET
            stack.append(memo[data[position + 1]])
            position += 2
        elif opcode == 0x72:  # LONG_BINPUT
            memo[int.from_bytes(data[position + 1 : position + 5], "little")] = stack[-1]
            position += 5
        elif opcode == 0x6A:  # LONG_BINGET
            stack.append(memo[int.from_bytes(data[position + 1 : position + 5], "little")])
            position += 5
        elif opcode == 0x4B:  # BININT1
            stack.append(data[position + 1])
            position += 2
        elif opcode == 0x28:  # MARK
            machine.outer.append(stack)
            machine.stack = stack = []
            position += 1
        elif opcode == 0x2E:  # STOP
            return True
        else:
            operation = _OPERATIONS.get(opcode)
            if operation is None:
                raise PickleError(f"opcode 0x{opcode:02x} is not for plain values")
            machine.position = position + 1
            operation(machine)
            position, stack = machine.position, machine.stack
    return False


def _fillable(target: Any, group: list[Any]) -> bool:
    """Keys must be flat: the hash of a nested tuple recurses in C."""
    if isinstance(target, dict):
        return all(type(key) is str or type(key) is int for key in group[::2])
    return isinstance(target, list)


def _fill(target: dict[Any, Any] | list[Any], group: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(group)
    elif _fillable(target, group):
        target.update(zip(group[::2], group[1::2], strict=False))
    else:
        raise PickleError("a key that is no plain scalar")


def _set_items(machine: _Machine) -> None:
    group = machine.close_group()
    _fill(machine.top(dict), group)


def _set_item(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _fill(machine.top(dict), [key, value])


def _appends(machine: _Machine) -> None:
    group = machine.close_group()
    _fill(machine.top(list), group)


def _append(machine: _Machine) -> None:
    value = machine.stack.pop()
    machine.top(list).append(value)


def _dict(machine: _Machine) -> dict[Any, Any]:
    target: dict[Any, Any] = {}
    _fill(target, machine.close_group())
    return target


def _tuple(size: int) -> Callable[[_Machine], object]:
    return _push(lambda machine: tuple([machine.stack.pop() for _ in range(size)][::-1]))


def _push(read: Callable[[_Machine], Any]) -> Callable[[_Machine], object]:
    def apply(machine: _Machine) -> None:
        value = read(machine)
        machine.stack.append(value)

    return apply


def _long(size_bytes: int) -> Callable[[_Machine], int]:
    def read(machine: _Machine) -> int:
        size = machine.unsigned(size_bytes)
        if size > _MAX_LONG_BYTES:
            raise PickleError("absurd integer")
        return int.from_bytes(machine.take(size), "little", signed=True)

    return read


def _decimal(machine: _Machine) -> int | bool:
    digits = machine.line().rstrip(b"L")
    if digits in (b"00", b"01"):
        return digits == b"01"
    if len(digits) > 20:
        raise PickleError("absurd integer")
    return int(digits)


def _remember(machine: _Machine, index: int) -> None:
    machine.memo[index] = machine.stack[-1]


def _sized(size_bytes: int) -> Callable[[_Machine], bytes]:
    return lambda machine: machine.take(machine.unsigned(size_bytes))


def _text(size_bytes: int) -> Callable[[_Machine], str]:
    return lambda machine: machine.take(machine.unsigned(size_bytes)).decode("utf-8", errors="replace")


_OPERATIONS: dict[int, Callable[[_Machine], object]] = {
    opcode[0]: operation
    for opcode, operation in {
        b"\x80": lambda machine: machine.take(1),
        b"\x95": lambda machine: machine.take(8),
        b"0": lambda machine: machine.stack.pop(),
        b"1": _Machine.close_group,
        b"2": _push(lambda machine: machine.stack[-1]),
        b"N": _push(lambda _: None),
        b"\x88": _push(lambda _: True),
        b"\x89": _push(lambda _: False),
        b"M": _push(lambda machine: machine.unsigned(2)),
        b"J": _push(lambda machine: int.from_bytes(machine.take(4), "little", signed=True)),
        b"\x8a": _push(_long(1)),
        b"\x8b": _push(_long(4)),
        b"I": _push(_decimal),
        b"L": _push(_decimal),
        b"G": _push(lambda machine: struct.unpack(">d", machine.take(8))[0]),
        b"F": _push(lambda machine: float(machine.line())),
        b"X": _push(_text(4)),
        b"\x8c": _push(_text(1)),
        b"\x8d": _push(_text(8)),
        b"V": _push(lambda machine: machine.line().decode("raw-unicode-escape", errors="replace")),
        b"U": _push(_text(1)),
        b"T": _push(_text(4)),
        b"B": _push(_sized(4)),
        b"C": _push(_sized(1)),
        b"}": _push(lambda _: {}),
        b"]": _push(lambda _: []),
        b")": _push(lambda _: ()),
        b"t": _push(lambda machine: tuple(machine.close_group())),
        b"\x85": _tuple(1),
        b"\x86": _tuple(2),
        b"\x87": _tuple(3),
        b"l": _push(_Machine.close_group),
        b"d": _push(_dict),
        b"u": _set_items,
        b"s": _set_item,
        b"e": _appends,
        b"a": _append,
        b"\x94": lambda machine: _remember(machine, len(machine.memo)),
        b"p": lambda machine: _remember(machine, int(machine.line()[:20])),
        b"g": _push(lambda machine: machine.memo[int(machine.line()[:20])]),
    }.items()
}


def _salvage(machine: _Machine) -> Any:
    """What a torn pickle had built: its open groups are closed from the inside out."""
    group = machine.stack
    while machine.outer:
        below = machine.outer.pop()
        if below and _fillable(below[-1], group):
            _fill(below[-1], group)
        group = below
    if len(group) > 1 and _fillable(group[0], group[1:]):
        _fill(group[0], group[1:])
    return group[0] if group else None
