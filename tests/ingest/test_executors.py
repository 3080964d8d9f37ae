"""Tasks end as values in the order of their items, also those whose process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from correlator.core.threads import ONE_THREAD
from correlator.executors import Advance, Failed, Process, Serial, _one_thread


def _double(item: int, advance: Advance) -> int:
    advance(item)
    if item == 13:
        msg = "unlucky"
        raise ValueError(msg)
    return 2 * item


def _die(item: int, advance: Advance) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    advance(1)
    return item


@pytest.mark.parametrize("executor", [Serial(), Process(2)], ids=["serial", "process"])
def test_results_come_in_order_and_errors_are_values(executor: Serial | Process) -> None:
    told: list[int] = []
    results = list(executor.map(_double, [5, 13, 1, 8], told.append))
    assert results == [10, Failed("ValueError: unlucky"), 2, 16]
    assert sum(told) == 27


def test_nothing_to_do_is_done_at_once() -> None:
    assert list(Process(2).map(_double, [], lambda _: None)) == []


def test_only_the_item_whose_process_dies_fails() -> None:
    results = list(Process(2).map(_die, [1, 2, 3, 4, 5, 6], lambda _: None))
    assert [result for result in results if not isinstance(result, Failed)] == [1, 2, 4, 5, 6]
    assert isinstance(results[2], Failed)
    assert "killed" in results[2].reason


def test_an_item_that_cannot_be_sent_fails_alone() -> None:
    items: list[Any] = [1, lambda: None, 2]
    results = list(Process(1).map(_double, items, lambda _: None))
    assert results[0] == 2
    assert isinstance(results[1], Failed)
    assert results[2] == 4


def _sleep(item: int, advance: Advance) -> int:
    if item:
        time.sleep(item)
    return item


def test_nobody_waits_for_work_that_is_no_longer_wanted() -> None:
    """A signal that ends the program must not wait for a reader in the middle of a large file."""
    results = Process(2).map(_sleep, [0, 60, 60], lambda _: None)
    assert next(results) == 0
    began = time.monotonic()
    results.close()  # type: ignore[attr-defined]  # a generator
    assert time.monotonic() - began < 30


def test_no_worker_outlives_a_program_that_is_killed(tmp_path: Path) -> None:
    """The out-of-memory killer gives nobody the time to say goodbye; readers must not sit there for good."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        from correlator.executors import Process
        import task
        next(Process(2).map(task.tell_and_sleep, [1, 2, 3], lambda _: None))
        """)
    )
    (tmp_path / "task.py").write_text(
        "import os, time\n"
        "def tell_and_sleep(item, advance):\n"
        "    open(f'{os.path.dirname(__file__)}/{os.getpid()}.pid', 'w').close()\n"
        "    time.sleep(60)\n"
    )
    environment = _env() | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(tmp_path)])}
    with subprocess.Popen([sys.executable, script], env=environment) as program:
        workers = _wait_for(lambda: list(tmp_path.glob("*.pid")), 2)
        program.kill()
    pids = [int(path.stem) for path in workers]
    gone = _wait_for(lambda: [pid for pid in pids if not _alive(pid)], len(pids))
    assert sorted(gone) == sorted(pids)


def _wait_for(look: Callable[[], list[Any]], count: int) -> list[Any]:
    deadline = time.monotonic() + 30
    while len(found := look()) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _alive(pid: int) -> bool:
    """Running; a process that nobody has waited for counts as ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_processes_start_with_one_thread_each_and_leave_no_trace_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    with _one_thread():
        assert (os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]) == ("1", "5")
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == "5"


def test_a_script_without_a_guard_is_not_run_again(tmp_path: Path) -> None:
    """`correlator.diagnose(...)` at the top level of a user's script must not start the script in each process."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import operator
        print("started")
        from correlator.executors import Process
        print(list(Process(2).map(operator.pow, [2, 3], lambda _: None)) != [])
        """)
    )
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=Path.cwd(), timeout=60, env=_env(), check=False
    )
    assert run.stdout.split() == ["started", "True"], run.stderr


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])}
