"""Where tasks run: in this process, or in others. A task that cannot be completed becomes a value, never a gap."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, Generic, Protocol, TypeVar

from correlator.core.threads import ONE_THREAD

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

Advance = Callable[[int], None]
"""Told how many more bytes were read."""

MOST_WORKERS = 16
"""More readers than this wait for the disk, and each holds up to 256 MB."""
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that did not end: its process died or its result could not be sent."""

    reason: str


class Task(Protocol[T_contra, R_co]):
    """A piece of work; an importable function or a value that can be pickled."""

    def __call__(self, item: T_contra, advance: Advance, /) -> R_co:
        """Do the work for one item, and say how far it is."""


class Executor(Protocol):
    """Maps a task over items; results come in the order of the items."""

    def map(self, task: Task[T, R], items: Sequence[T], advance: Advance) -> Iterator[R | Failed]:
        """One result for each item. What a task raises is a `Failed`, too."""


class Serial:
    """One item after the other, in this process."""

    def map(self, task: Task[T, R], items: Sequence[T], advance: Advance) -> Iterator[R | Failed]:
        """One result for each item."""
        for item in items:
            yield _attempt(task, item, advance)


class Process:
    """Forkserver processes, which start without the heavy modules of this one (performance.md, recommended engine 8).

    `preload` names the modules that all of them need: they are imported once and shared.
    """

    def __init__(self, workers: int, preload: Sequence[str] = ()) -> None:
        self._workers = max(1, min(workers, MOST_WORKERS))
        self._preload = list(preload)

    def map(self, task: Task[T, R], items: Sequence[T], advance: Advance) -> Iterator[R | Failed]:
        """One result for each item. After a process died, what is unfinished is tried once more, each item apart."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(self._preload)
        pool = _Pool(context, self._workers, task, advance)
        try:
            futures = [pool.submit(item) for item in items]
            for item, future in zip(items, futures, strict=True):
                outcome = pool.result(future)
                yield self._alone(context, task, item, advance) if outcome is None else outcome.value
        except BaseException:
            pool.stop()
            raise
        finally:
            pool.close()

    def _alone(self, context: Any, task: Task[T, R], item: T, advance: Advance) -> R | Failed:
        """The item in a fresh process that nothing else shares, so that it answers for itself alone."""
        pool = _Pool(context, 1, task, advance)
        try:
            outcome = pool.result(pool.submit(item))
        finally:
            pool.close()
        return Failed("the process that read it was killed (out of memory?)") if outcome is None else outcome.value


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[R]):
    value: R | Failed


class _Pool(Generic[T, R]):
    """A process pool that shares a counter of bytes with its workers."""

    def __init__(self, context: Any, workers: int, task: Task[T, R], advance: Advance) -> None:
        self._counter = context.Value("q", 0)
        self._counted = 0
        self._advance = advance
        self._pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(task, self._counter))

    def submit(self, item: T) -> Future[R | Failed] | None:
        """Queue an item; None when the pool is already broken."""
        try:
            with _without_main(), _one_thread():
                return self._pool.submit(_run, item)
        except BrokenProcessPool:
            return None

    def result(self, future: Future[R | Failed] | None) -> _Outcome[R] | None:
        """Wait for an item, reporting progress meanwhile; None when a process died before it was done."""
        if future is None:
            return None
        while not wait([future], timeout=_POLL_S).done:
            self._report()
        self._report()
        try:
            return _Outcome(future.result())
        except BrokenProcessPool:
            return None
        except Exception as error:  # noqa: BLE001  (the item or its result could not be sent)
            return _Outcome(Failed(_words(error)))

    def stop(self) -> None:
        """End the processes in the middle of their work: nobody waits for it any more."""
        for process in list((getattr(self._pool, "_processes", None) or {}).values()):
            process.terminate()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _report(self) -> None:
        total = self._counter.value
        if total > self._counted:
            self._advance(total - self._counted)
            self._counted = total


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main module while a process may be started.

    multiprocessing would run the user's script a second time in each process, which breaks a script or a notebook that
    is not guarded by ``if __name__ == "__main__"``, and imports all that it imports. Our tasks are importable without
    it.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _one_thread() -> Iterator[None]:
    """Start processes with ONE_THREAD, as far as the user has not set it, and leave this process as it is."""
    added = [name for name in ONE_THREAD if name not in os.environ]
    os.environ.update((name, ONE_THREAD[name]) for name in added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


_task: Task[Any, Any] | None = None
_advance_here: Advance | None = None


def _begin(task: Task[Any, Any], counter: Any) -> None:
    """Set up a worker process: what it runs, and the counter it shares. Ctrl-C is the parent's to handle."""
    global _task, _advance_here  # one worker process has one task for its whole life
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()

    def advance(count: int) -> None:
        with counter.get_lock():
            counter.value += count

    _task, _advance_here = task, advance


def _leave_with(parent: int) -> None:
    """End this process when its parent ends, even by SIGKILL: it would wait for work for good, and keep its siblings."""
    connection.wait([parent])
    os._exit(1)


def _run(item: Any) -> Any:
    if _task is None or _advance_here is None:
        return Failed("the process was not set up")
    return _attempt(_task, item, _advance_here)


def _attempt(task: Task[T, R], item: T, advance: Advance) -> R | Failed:
    try:
        return task(item, advance)
    except Exception as error:  # noqa: BLE001  (a bug of ours must cost one item, not the run)
        return Failed(_words(error))


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().rstrip(":")


def usable_cpus() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
