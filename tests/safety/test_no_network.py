"""It never asks the network, starts no program of others, and writes nothing but its output and the documented cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(300)  # processes of their own, on machines that may be busy
ROOT = Path(__file__).parent.parent.parent
COMMANDS = (
    "diagnose RUN --format html -o OUT/report.html --verbose",
    "diagnose RUN --json --workers 2",
    "diagnose RUN --format markdown",
    "timeline RUN -o OUT/timeline.parquet --all-lines --workers 2",
    "events RUN --all-lines",
    "graph RUN -o OUT/causes.graphml",
    "trace RUN -o OUT/trace.json.gz",
    "notebook RUN -o OUT/post_mortem.ipynb",
    "clocks RUN",
    "explain gpu_off_bus",
    "catalogue",
    "diagnose OUT/timeline.parquet",
)
# Runs in every interpreter that is started below, the readers' too. A socket of the machine itself (AF_UNIX) is how
# multiprocessing talks to its server; writing is allowed where the test says, and everything else is written down.
WATCH = """
import os, sys
_log = os.environ.get("WATCH_LOG")
_NETWORK = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "imaplib.", "poplib.", "nntplib.", "telnetlib.")
_PROGRAMS = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "pty.spawn", "ctypes.dlopen.url"}
_WRITES = {"os.mkdir": 0, "os.remove": 0, "os.rename": 1, "os.rmdir": 0, "os.symlink": 1, "os.link": 1, "os.truncate": 0,
           "os.chmod": 0, "os.utime": 0, "os.mkfifo": 0, "tempfile.mkstemp": 0}

def _say(*words):
    descriptor = os.open(_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, (chr(9).join(map(str, words)) + chr(10)).encode("utf-8", "backslashreplace"))
    os.close(descriptor)

def _watch(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        wrote = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        if wrote and path != _log and isinstance(path, (str, bytes)):
            _say("write", os.path.abspath(os.fsdecode(path)))
    elif event in _WRITES and isinstance(arguments[_WRITES[event]], (str, bytes)):
        _say("write", os.path.abspath(os.fsdecode(arguments[_WRITES[event]])))
    elif event == "socket.__new__":
        if arguments[1] != 1:
            _say("network", event, arguments[1:])
            raise PermissionError("no sockets here")
    elif event in ("socket.bind", "socket.connect"):
        if arguments[0].family != 1:
            _say("network", event, arguments[1:])
            raise PermissionError("no sockets here")
    elif event.startswith(_NETWORK) and event not in ("socket.gethostname",):
        _say("network", event)
        raise PermissionError("no sockets here")
    elif event in _PROGRAMS:
        _say("program", event, arguments[0])

if _log:
    sys.addaudithook(_watch)
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[str]]]:
    """The folder of everything, and what the watch wrote down while all commands ran in it."""
    root = tmp_path_factory.mktemp("watched")
    for name in ("site", "home", "cwd", "out", "tmp"):
        (root / name).mkdir()
    (root / "site" / "sitecustomize.py").write_text(WATCH)
    shutil.copytree(ROOT / "sample_runs" / "pub-oom-rank11-slurm" / "run", root / "run")
    words = [
        [word.replace("RUN", str(root / "run")).replace("OUT", str(root / "out")) for word in command.split()]
        for command in COMMANDS
    ]
    script = (
        "import json, sys\nfrom correlator.cli.app import main\n"
        "if __name__ == '__main__':\n"
        "    for words in json.loads(sys.argv[1]):\n"
        "        try:\n            main(words)\n"
        "        except SystemExit as end:\n            assert not end.code, (words, end.code)\n"
    )
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(root / "home"), "TMPDIR": str(root / "tmp"), "WATCH_LOG": str(root / "log"),
        "PYTHONPATH": os.pathsep.join([str(root / "site"), str(ROOT)]), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(words)], cwd=root / "cwd", env=environment, capture_output=True, text=True,
        check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    log = root / "log"
    return root, [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []


def test_no_socket_is_opened(watched: tuple[Path, list[list[str]]]) -> None:
    assert not [row for row in watched[1] if row[0] == "network"]


def test_no_program_is_started(watched: tuple[Path, list[list[str]]]) -> None:
    assert not [row for row in watched[1] if row[0] == "program"]


def test_writing_is_kept_to_output_cache_and_temporary_folder(watched: tuple[Path, list[list[str]]]) -> None:
    root, rows = watched
    allowed = (root / "out", root / "tmp", root / "home" / ".cache", Path("/dev/null"), Path("/dev/shm"))
    wrote = {Path(row[1]) for row in rows if row[0] == "write"}
    assert wrote, "the watch sees nothing"
    assert not [path for path in wrote if not any(path.is_relative_to(place) for place in allowed)]


def test_what_lies_there_afterwards(watched: tuple[Path, list[list[str]]]) -> None:
    """Also what libraries write without asking Python."""
    root = watched[0]
    outputs = {Path(word).name for command in COMMANDS for word in command.split() if word.startswith("OUT/")}
    assert {path.name for path in (root / "out").iterdir()} == outputs
    assert not list((root / "cwd").iterdir())
    assert not list((root / "tmp").iterdir())
    assert {path.relative_to(root / "home").parts[:2] for path in (root / "home").rglob("*")} <= {
        (".cache",),
        (".cache", "correlator"),
    }
    before = ROOT / "sample_runs" / "pub-oom-rank11-slurm" / "run"
    assert {p.name: p.read_bytes() for p in (root / "run").iterdir()} == {
        p.name: p.read_bytes() for p in before.iterdir()
    }


def test_the_watch_would_see_it(tmp_path: Path) -> None:
    """A guard that cannot fail is none."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    script = "import socket, subprocess; open('stray', 'w'); subprocess.run(['true']); socket.create_connection(('127.0.0.1', 9))"
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "WATCH_LOG": str(log)},
    )  # fmt: skip
    assert "PermissionError: no sockets here" in done.stderr
    assert {line.split("\t")[0] for line in log.read_text().splitlines()} == {"write", "program", "network"}
