"""A disk that is full, or a limit on files, while an output is written: no half file, the old one intact, one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(300)  # processes of their own, on machines that may be busy
ROOT = Path(__file__).parent.parent.parent
RUN = ROOT / "sample_runs" / "pub-oom-rank11-slurm" / "run"
OUTPUTS = (
    "diagnose --format html -o report.html",
    "diagnose --json -o report.json",
    "diagnose --format markdown -o report.md",
    "diagnose -o report.txt",
    "timeline -o timeline.parquet",
    "timeline --all-lines -o lines.parquet",
    "timeline --partition -o parts",
    "graph -o causes.graphml",
    "graph -o causes.dot",
    "graph -o causes.mmd",
    "graph -o causes.json",
    "trace -o trace.json",
    "trace -o trace.json.gz",
    "notebook -o post_mortem.ipynb",
)
# The limit is taken off again between the commands: standard output may be a file, too. The kernel sends no signal
# where Python ignores SIGXFSZ, and a write then fails as on a full disk, with another number.
SCRIPT = """
import contextlib, io, json, resource, sys
from correlator.cli.app import main
free = resource.RLIM_INFINITY
answers = []
for words in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, free))
        try:
            main(words)
        except SystemExit as end:
            code = end.code
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (free, free))
    answers.append([code, said.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[int, str]]]:
    """The folder in which every output failed, and what each command said."""
    folder = tmp_path_factory.mktemp("full")
    commands = []
    for output in OUTPUTS:
        command, *options = output.split()
        if options[-1] != "parts":
            (folder / options[-1]).write_text("old")
        commands.append([command, str(RUN), *options, "--force", "--quiet", "--workers", "1"])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CORRELATOR_CACHE": "off", "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(commands)], capture_output=True, text=True, cwd=folder, env=environment,
        check=True, timeout=280,
    )  # fmt: skip
    return folder, dict(zip(OUTPUTS, map(tuple, json.loads(done.stdout)), strict=True))


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_full_disk_is_one_sentence(written: tuple[Path, dict[str, tuple[int, str]]], output: str) -> None:
    code, said = written[1][output]
    assert code == 2, said
    assert said.startswith("correlator: error: "), said
    assert "cannot be written" in said or "cannot write" in said
    assert "File too large" in said
    assert ".part" not in said, "the name of the draft means nothing to its reader"


def test_nothing_half_is_left_and_what_was_there_stays(written: tuple[Path, dict[str, tuple[int, str]]]) -> None:
    folder = written[0]
    names = {output.split()[-1] for output in OUTPUTS} - {"parts"}
    assert {path.name for path in folder.iterdir()} == names
    assert {path.read_text() for path in folder.iterdir()} == {"old"}


def test_a_full_temporary_folder_is_one_sentence(tmp_path: Path) -> None:
    """An archive and standard input have to be unpacked somewhere."""
    log = (RUN / min(os.listdir(RUN))).read_bytes() * 30
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); from correlator.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "diagnose", "-"], input=log, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CORRELATOR_CACHE": "off", "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith(b"correlator: error: standard input cannot be read"), done.stderr
    assert not list(tmp_path.iterdir())
