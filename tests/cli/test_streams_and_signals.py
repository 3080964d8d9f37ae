"""Streams that are closed, full or left by their reader, and signals that end the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "correlator")
LINES = b"".join(
    b"[rank%d]: 2026-03-02 17:05:%02d,000 torch.OutOfMemoryError: CUDA out of memory\n" % (n % 2, n) for n in range(60)
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A run of one file."""
    path = tmp_path / "node01.log"
    path.write_bytes(LINES)
    return path


def shell(words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `correlator` is this one."""
    script = f'set -o pipefail; correlator() {{ {sys.executable} -m correlator "$@"; }}; {words}'
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, check=False
    )


@pytest.mark.parametrize("command", ["diagnose node01.log", "catalogue", "--help"])
def test_a_reader_that_is_gone_is_141(command: str, log: Path) -> None:
    """Whoever notices first: Python, click or rich."""
    done = shell(f"exec 3> >(exec true); wait $!; correlator {command} >&3", log.parent)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_stdout_is_said_in_a_sentence(log: Path) -> None:
    done = shell("correlator schema >&-", log.parent)
    assert done.returncode == 2
    assert done.stderr.startswith("correlator: error: cannot write to standard output: it is closed\n")


def test_a_closed_stderr_does_not_matter(log: Path) -> None:
    """As under cron; the report is on stdout."""
    done = shell("correlator diagnose node01.log --json 2>&-", log.parent)
    assert done.returncode == 0
    assert done.stdout.startswith("{")


def test_a_full_disk_is_said_in_a_sentence(log: Path) -> None:
    done = shell("correlator schema > /dev/full", log.parent)
    assert done.returncode == 2
    assert done.stderr == "correlator: error: cannot write to standard output: No space left on device\n"


def test_a_closed_stdin_is_said_in_a_sentence(log: Path) -> None:
    done = shell("correlator diagnose - <&-", log.parent)
    assert done.returncode == 3
    assert done.stderr.startswith("correlator: error: standard input is closed\n")


def test_the_device_of_stdout_is_stdout_wherever_it_leads(log: Path) -> None:
    """It is a regular file when the shell redirects, and yet nothing that would be overwritten."""
    done = shell("correlator diagnose node01.log --json -o /dev/stdout > out.json", log.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert (log.parent / "out.json").read_text().startswith("{")


def test_sigterm_takes_the_temporary_folder_away(tmp_path: Path) -> None:
    """While standard input is unpacked there."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*COMMAND, "diagnose", "-"], stdin=subprocess.PIPE, env=environment) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("correlator-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(tmp_path.glob("correlator-*"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert not list(tmp_path.glob("correlator-*"))


def test_numpy_starts_no_threads_that_a_memory_limit_would_refuse(log: Path) -> None:
    """OpenBLAS would end the process at this limit on a machine with many processors."""
    done = shell("ulimit -v 4000000; correlator diagnose node01.log --workers 1 --json", log.parent)
    assert done.returncode == 0, done.stderr


def test_the_command_line_sets_what_the_user_has_not_set() -> None:
    script = "import os, correlator.cli; print(os.environ['OPENBLAS_NUM_THREADS'], os.environ['OMP_NUM_THREADS'])"
    environment = {**os.environ, "OMP_NUM_THREADS": "3"}
    environment.pop("OPENBLAS_NUM_THREADS", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["1", "3"]
