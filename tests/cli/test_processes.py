"""The command line as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

COMMAND = (sys.executable, "-m", "correlator")


def test_a_closed_pipe_ends_quietly() -> None:
    """As with `| head`: no message, and the exit code that a shell knows for it."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([*COMMAND, "schema"], stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_missing_run_is_one_line_and_exit_3() -> None:
    """Through the real pipeline."""
    done = subprocess.run([*COMMAND, "diagnose", "no/such/run"], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("correlator: error: ")
    assert "Traceback" not in done.stderr
