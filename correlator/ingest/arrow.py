"""Python values to Arrow arrays.

`pyarrow.array` imports pandas wherever that is installed, to ask whether the values are a series: half a second of CPU
in each reading process. Here the buffers are laid out with numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from correlator.core.schema import Kind

_NUMPY: dict[Kind, type[np.generic]] = {
    Kind.INT32: np.int32,
    Kind.INT64: np.int64,
    Kind.TIME: np.int64,
    Kind.UINT8: np.uint8,
    Kind.UINT64: np.uint64,
    Kind.FLOAT32: np.float32,
    Kind.FLOAT64: np.float64,
}
_FLOATS = (Kind.FLOAT32, Kind.FLOAT64)
_WIDE, _NARROW = np.dtype(np.int64), np.dtype(np.int32)


def to_arrow(values: Sequence[Any], kind: Kind, dtype: pa.DataType) -> pa.Array:
    """The values as an array of the type of their kind.

    Raises TypeError, ValueError, OverflowError or AttributeError where one of them is no value of that kind.
    """
    missing = values.count(None)
    if missing == len(values):
        return pa.nulls(len(values), dtype)
    match kind:
        case Kind.TEXT:
            return _text(values, missing, dtype, _WIDE)
        case Kind.LABEL:
            return _labels(values, missing, dtype)
        case Kind.ATTRIBUTES:
            return _attributes(values, dtype)
        case _:
            return _numbers(values, missing, kind, dtype)


def _numbers(values: Sequence[Any], missing: int, kind: Kind, dtype: pa.DataType) -> pa.Array:
    expected = {int, type(None), float} if kind in _FLOATS else {int, type(None)}
    if strange := set(map(type, values)) - expected:
        raise TypeError(strange)
    present = values if not missing else [0 if value is None else value for value in values]
    return pa.Array.from_buffers(
        dtype, len(values), [_validity(values, missing), pa.py_buffer(np.array(present, dtype=_NUMPY[kind]))], missing
    )


def _text(values: Sequence[str | None], missing: int, dtype: pa.DataType, width: np.dtype[Any]) -> pa.Array:
    encoded = [b"" if value is None else value.encode() for value in values]
    buffers = [
        _validity(values, missing),
        pa.py_buffer(_offsets(map(len, encoded), width)),
        pa.py_buffer(b"".join(encoded)),
    ]
    return pa.Array.from_buffers(dtype, len(values), buffers, missing)


def _labels(values: Sequence[str | None], missing: int, dtype: pa.DataType) -> pa.Array:
    """A dictionary in the order in which its entries come up."""
    places: dict[str, int] = {}
    indices = [-1 if value is None else places.setdefault(value, len(places)) for value in values]
    codes = np.array(indices, dtype=np.int32)
    np.maximum(codes, 0, out=codes)
    index = pa.Array.from_buffers(
        dtype.index_type, len(values), [_validity(values, missing), pa.py_buffer(codes)], missing
    )
    return pa.DictionaryArray.from_arrays(index, _text(list(places), 0, dtype.value_type, _NARROW))


def _attributes(values: Sequence[Iterable[tuple[str, str]] | None], dtype: pa.DataType) -> pa.Array:
    lists = [() if pairs is None else tuple(pairs) for pairs in values]
    pairs = list(chain.from_iterable(lists))
    struct = dtype.value_type
    columns = [
        _text([pair[place] for pair in pairs], 0, struct.field(place).type, _WIDE) for place in range(struct.num_fields)
    ]
    offsets = pa.py_buffer(_offsets(map(len, lists), _WIDE))
    items = pa.StructArray.from_arrays(columns, fields=[struct.field(place) for place in range(struct.num_fields)])
    return pa.LargeListArray.from_arrays(pa.Array.from_buffers(pa.int64(), len(lists) + 1, [None, offsets]), items)


def _validity(values: Sequence[Any], missing: int) -> pa.Buffer | None:
    """The bitmap of the values that are there; None where all are."""
    if not missing:
        return None
    present = np.fromiter((value is not None for value in values), dtype=np.bool_, count=len(values))
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def _offsets(lengths: Iterable[int], width: np.dtype[Any]) -> NDArray[Any]:
    """Where each value begins, and where the last one ends."""
    return np.cumsum(np.fromiter(chain((0,), lengths), dtype=_WIDE), dtype=width)
