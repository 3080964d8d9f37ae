"""One thread for numpy's linear algebra while the clocks are fitted.

The matrices are small: more threads wait for each other, and on a busy machine a fit of 8 nodes takes 10 times as long.
Environment variables would have to be set before anybody imports numpy, so the library that its wheels carry is asked.
Elsewhere (Accelerate, MKL, a distribution's numpy) nothing happens, and the result is the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

_LIBRARIES = ("../numpy.libs/*openblas*", ".dylibs/*openblas*")
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_")


@dataclass(frozen=True, slots=True)
class _Threads:
    """How to ask for, and set, the number of threads."""

    get: Callable[[], int]
    set: Callable[[int], object]


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra inside the block runs on the calling thread alone."""
    threads = _threads()
    before = 1 if threads is None else threads.get()
    if threads is None or before <= 1:
        yield
        return
    threads.set(1)
    try:
        yield
    finally:
        threads.set(before)


@cache
def _threads() -> _Threads | None:
    folder = Path(np.__file__).parent
    for path in (found for pattern in _LIBRARIES for found in sorted(folder.glob(pattern))):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for name in _NAMES:
            if hasattr(library, name.format("get")) and hasattr(library, name.format("set")):
                return _Threads(getattr(library, name.format("get")), getattr(library, name.format("set")))
    return None
