"""The same answer wherever it is started: no writable folder, no home, no terminal, another language or time zone."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(300)  # processes of their own, on machines that may be busy
ROOT = Path(__file__).parent.parent.parent
RUN = ROOT / "sample_runs" / "real-sigkill-005" / "run"
WORDS = ("diagnose", str(RUN), "--json", "--workers", "1")
UNWRITABLE = Path("/proc/self/task")


def command(cwd: Path, **changed: str | None) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **{k: v for k, v in changed.items() if v is not None}}
    for name in (name for name, value in changed.items() if value is None):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-B", "-m", "correlator", *WORDS], capture_output=True, cwd=cwd, env=environment, check=False
    )


@cache
def usual() -> bytes:
    done = command(ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "changed",
    [
        {"HOME": None, "XDG_CACHE_HOME": None, "CORRELATOR_CACHE": None, "TZ": "<+0545>-5:45", "COLUMNS": "0"},
        {"HOME": "/proc", "XDG_CACHE_HOME": None, "CORRELATOR_CACHE": None, "LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LANG": "tr_TR.UTF-8", "LC_ALL": "nonsense", "TZ": "not/a zone:\x01", "TERM": "dumb"},
    ],
    ids=["no home, odd zone", "home cannot be written, C locale", "foreign, no zone"],
)
def test_surroundings_change_no_byte(changed: dict[str, str | None]) -> None:
    """From a folder in which not even root can create a file."""
    done = command(UNWRITABLE, **changed)
    assert done.returncode == 0, done.stderr
    assert done.stdout == usual()
    assert b"Traceback" not in done.stderr


def test_a_terminal_gets_the_same_words(tmp_path: Path) -> None:
    """Progress goes to the terminal's stderr, the report to stdout, whatever else it is."""
    primary, secondary = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "correlator", *WORDS], stdout=subprocess.PIPE, stderr=secondary, stdin=secondary,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}, cwd=tmp_path,
    ) as process:  # fmt: skip
        os.close(secondary)
        out, _ = process.communicate(timeout=100)
    os.close(primary)
    assert (process.returncode, out) == (0, usual())
    assert not list(tmp_path.iterdir())
