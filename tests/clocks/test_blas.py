"""One thread inside the block, what was before after it."""

from __future__ import annotations

import pytest

from correlator.clocks import blas


class FakeLibrary:
    """Counts threads like OpenBLAS."""

    def __init__(self) -> None:
        self.threads = 4

    def get(self) -> int:
        return self.threads

    def set(self, threads: int) -> None:
        self.threads = threads


def test_threads_come_back_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads is the caller's again when the block ends, however it ends."""
    library = FakeLibrary()
    monkeypatch.setattr(blas, "_threads", lambda: blas._Threads(library.get, library.set))

    def work() -> None:
        with blas.one_thread():
            assert library.threads == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert library.threads == 4


def test_an_unknown_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can be asked, the work is done all the same."""
    monkeypatch.setattr(blas, "_threads", lambda: None)
    with blas.one_thread():
        pass
