"""The command line with the pipeline replaced: streams, files, formats and exit codes."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from correlator.cli.app import main
from correlator.core.errors import CatalogueError, CorrelatorError, InputError, NoLogsError
from correlator.core.model import Diagnosis

Outcome = tuple[int, str, str]
Invoke = Callable[..., Outcome]


class FakePipeline:
    """Stands for correlator.pipeline: answers with one diagnosis, or raises, and remembers what it was asked."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis
        self.error: BaseException | None = None
        self.calls: list[dict[str, Any]] = []

    def open_run(self, targets: Sequence[str], **options: Any) -> SimpleNamespace:
        """As the real one."""
        self.calls.append({"targets": targets, **options})
        if self.error is not None:
            raise self.error
        run = SimpleNamespace(
            diagnosis=self.diagnosis,
            events=SimpleNamespace(height=3),
            write_timeline=lambda path: path.write_bytes(b"PAR1"),
        )
        run.masked = lambda **_options: run
        return run


@pytest.fixture
def pipeline(identified: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    """A pipeline that identifies rank 17."""
    fake = FakePipeline(identified)
    module = ModuleType("correlator.pipeline")
    module.__dict__["open_run"] = fake.open_run
    monkeypatch.setitem(sys.modules, "correlator.pipeline", module)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CORRELATOR_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return fake


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments: str | Path) -> Outcome:
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run


def test_the_report_goes_to_stdout_and_nothing_else_does(pipeline: FakePipeline, invoke: Invoke) -> None:
    """Data on stdout, silence on stderr when nobody watches, exit 0 whatever the verdict."""
    code, out, err = invoke("diagnose", "run")
    assert (code, err) == (0, "")
    assert out.startswith("IDENTIFIED    Rank 17 on node02")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    "arguments", [("--json",), ("--format", "json"), ("-f", "json"), ("--json", "--format", "json")]
)
def test_json_by_either_name(pipeline: FakePipeline, invoke: Invoke, arguments: tuple[str, ...]) -> None:
    """--json is a synonym."""
    code, out, _ = invoke("diagnose", "run", *arguments)
    assert code == 0
    assert json.loads(out)["verdict"]["initiators"][0]["rank"] == 17


@pytest.mark.parametrize(("name", "expected"), [("identified", 10), ("tied", 11), ("undetermined", 12), ("healthy", 0)])
def test_exit_codes_of_verdicts(
    name: str, expected: int, pipeline: FakePipeline, invoke: Invoke, request: pytest.FixtureRequest
) -> None:
    """Only with --exit-code, and the report is there all the same."""
    pipeline.diagnosis = request.getfixturevalue(name)
    assert invoke("diagnose", "run")[0] == 0
    code, out, _ = invoke("diagnose", "run", "--exit-code")
    assert code == expected
    assert pipeline.diagnosis.verdict.summary[:20] in out


def test_what_was_asked_for_reaches_the_pipeline(pipeline: FakePipeline, invoke: Invoke) -> None:
    """Several targets, `-`, workers and catalogues are handed on as they are."""
    invoke("diagnose", "a", "b.log", "-", "--workers", "3", "--catalogue", "my.toml")
    (call,) = pipeline.calls
    assert list(call["targets"]) == ["a", "b.log", "-"]
    assert call["workers"] == 3
    assert list(call["catalogue"]) == [Path("my.toml")]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("run: cannot be read"), 3),
        (NoLogsError("run: no logs in it"), 3),
        (CatalogueError("my.toml: a bad pattern"), 2),
        (CorrelatorError("odd"), 1),
        (ValueError("a bug"), 1),
        (MemoryError(), 1),
        (RecursionError("deep"), 1),
    ],
)
def test_errors_are_one_line_and_a_code(
    error: BaseException, code: int, pipeline: FakePipeline, invoke: Invoke
) -> None:
    """Never a traceback; nothing on stdout."""
    pipeline.error = error
    exit_code, out, err = invoke("diagnose", "run")
    assert (exit_code, out) == (code, "")
    assert err.startswith("correlator: error: ")
    assert len(err.splitlines()) <= 2
    assert "Traceback" not in err


def test_a_hint_follows_the_error_and_neither_can_harm_a_terminal(pipeline: FakePipeline, invoke: Invoke) -> None:
    """File names are untrusted too."""
    pipeline.error = InputError("no such file: \x1b[2Jevil\nname", hint="look \x07 there")
    _, _, err = invoke("diagnose", "run")
    assert err == "correlator: error: no such file: evil name\n  hint: look \\x07 there\n"


def test_the_traceback_is_one_variable_away(pipeline: FakePipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """CORRELATOR_DEBUG=1 lets the error through."""
    pipeline.error = ValueError("a bug")
    monkeypatch.setenv("CORRELATOR_DEBUG", "1")
    with pytest.raises(ValueError, match="a bug"):
        main(["diagnose", "run"])


def test_interruption_is_130(pipeline: FakePipeline, invoke: Invoke) -> None:
    """Ctrl-C ends quietly."""
    pipeline.error = KeyboardInterrupt()
    code, out, err = invoke("diagnose", "run")
    assert (code, out, err.strip()) == (130, "", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("diagnose",),
        ("diagnose", "run", "--format", "docx"),
        ("diagnose", "run", "--json", "--format", "text"),
        ("diagnose", "run", "--workers", "0"),
        ("diagnose", "run", "--nonsense"),
        ("diagnoze", "run"),
        ("timeline", "run"),
        ("explain", "no_such_code"),
        (),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...], pipeline: FakePipeline, invoke: Invoke) -> None:
    """And no work is done."""
    assert invoke(*arguments)[0] == 2
    assert not pipeline.calls


def test_a_file_is_written_whole_and_without_colour(pipeline: FakePipeline, invoke: Invoke, tmp_path: Path) -> None:
    """With -o nothing goes to stdout, and no draft is left behind."""
    code, out, _ = invoke("diagnose", "run", "-o", tmp_path / "report.txt")
    assert (code, out) == (0, "")
    assert (tmp_path / "report.txt").read_text(encoding="utf-8").startswith("IDENTIFIED")
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]


def test_minus_is_stdout(pipeline: FakePipeline, invoke: Invoke) -> None:
    """`-o -` is the same as no -o."""
    assert invoke("diagnose", "run", "-o", "-") == invoke("diagnose", "run")


@pytest.mark.parametrize("command", ["diagnose", "timeline"])
def test_nothing_is_overwritten_without_force(
    command: str, pipeline: FakePipeline, invoke: Invoke, tmp_path: Path
) -> None:
    """The refusal comes before the work; --force replaces, through a symbolic link too."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("precious")
    link.symlink_to(target)
    code, _, err = invoke(command, "run", "-o", link)
    assert code == 2
    assert "--force" in err
    assert not pipeline.calls
    assert target.read_text() == "precious"
    assert invoke(command, "run", "-o", link, "--force")[0] == 0
    assert target.read_bytes()[:4] in {b"IDEN", b"PAR1"}
    assert link.is_symlink()


def test_a_failed_run_leaves_an_earlier_report_alone(pipeline: FakePipeline, invoke: Invoke, tmp_path: Path) -> None:
    """Nothing is truncated before the new report is whole."""
    report = tmp_path / "report.json"
    report.write_text("earlier")
    pipeline.error = InputError("gone")
    assert invoke("diagnose", "run", "-o", report, "--force")[0] == 3
    assert report.read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize("output", [".", "missing/report.txt"])
def test_an_impossible_output_is_refused_before_the_work(
    output: str, pipeline: FakePipeline, invoke: Invoke, tmp_path: Path
) -> None:
    """A folder, or a file in a folder that is not there."""
    assert invoke("diagnose", "run", "-o", tmp_path / output)[0] == 2
    assert not pipeline.calls


def test_devices_are_written_to_and_not_replaced(pipeline: FakePipeline, invoke: Invoke) -> None:
    """`-o /dev/null --force` must never put a file in the place of the device."""
    assert invoke("diagnose", "run", "-o", "/dev/null", "--force")[0] == 0
    assert Path("/dev/null").is_char_device()


def test_colour_and_width_follow_options_and_environment(
    pipeline: FakePipeline, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Colour in a pipe only on demand; COLUMNS sets the width of a pipe."""
    assert "\x1b[" in invoke("diagnose", "run", "--color", "always")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" not in invoke("diagnose", "run")[1]
    monkeypatch.setenv("COLUMNS", "60")
    out = invoke("diagnose", "run")[1]
    assert max(len(line) for line in out.splitlines() if "$ " not in line) <= 60


def test_a_terminal_gets_colour_unless_it_says_no(
    pipeline: FakePipeline, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR wins over a terminal, and --color over both."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in invoke("diagnose", "run", "-q")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in invoke("diagnose", "run", "-q")[1]
    assert "\x1b[" in invoke("diagnose", "run", "-q", "--color", "always")[1]


def test_timeline_tells_what_it_wrote(pipeline: FakePipeline, invoke: Invoke, tmp_path: Path) -> None:
    """The remark and the warnings go to stderr, and --quiet silences them."""
    code, out, err = invoke("timeline", "run", "-o", tmp_path / "t.parquet")
    assert (code, out) == (0, "")
    assert "correlator: warning: rank 40 is named on node05" in err
    assert "wrote 3 events" in err
    assert invoke("timeline", "run", "-o", tmp_path / "q.parquet", "--quiet") == (0, "", "")


def test_schema_is_the_one_of_the_reports(pipeline: FakePipeline, invoke: Invoke) -> None:
    """Valid JSON, with our version in it."""
    schema = json.loads(invoke("schema")[1])
    assert schema["properties"]["schema"]["const"] == "correlator.diagnosis/1"


def test_explain_says_what_to_do(invoke: Invoke) -> None:
    """A known code in full; an unknown one gets the nearest."""
    code, out, _ = invoke("explain", "gpu_off_bus")
    assert code == 0
    assert all(label in out for label in ("gpu_off_bus", "meaning", "do first", "then verify", "Recognised by"))
    assert "{node}" not in out
    assert "did you mean gpu_off_bus?" in invoke("explain", "gpu_of_bus")[2]


def test_a_code_with_two_meanings_is_explained_twice(invoke: Invoke) -> None:
    """silent_exit is a fault, and a way to be dragged in."""
    assert "dragged in, never the cause" in invoke("explain", "silent_exit")[1]
    assert "(unknown)" in invoke("explain", "silent_exit")[1]


def test_catalogue_lists_every_code(invoke: Invoke) -> None:
    """Each fault and each kind of collateral, once; patterns on demand."""
    out = invoke("catalogue")[1]
    assert all(out.count(f"\n  {code} ") == 1 for code in ("cuda_oom", "node_lost", "collective_timeout"))
    assert len(invoke("catalogue", "--verbose")[1]) > 2 * len(out)


OWN = """
[[faults.storage_io.signatures]]
name = 'our_store'
pattern = 'OURSTORE: lost the lease of (?P<volume>[a-z0-9-]{1,60})'
samples = ['2025-11-30 01:02:03,123 ERROR OURSTORE: lost the lease of scratch-7']
lookalikes = ['OURSTORE: renewed the lease of scratch-7']
"""


def test_a_persons_own_catalogue_is_checked(invoke: Invoke, tmp_path: Path) -> None:
    """Only what the file adds counts; a sample that a built-in pattern takes first is told."""
    own = tmp_path / "my.toml"
    own.write_text(OWN)
    code, out, _ = invoke("catalogue", "check", str(own))
    assert (code, out) == (0, "1 entry and 1 signature: nothing to object to\n")
    known = "RuntimeError: CUDA error: an illegal memory access was encountered"
    own.write_text(
        f"[[faults.storage_io.signatures]]\nname = 'x'\npattern = '{known}'\nsamples = ['{known}']\nlookalikes = ['x']\n"
    )
    code, out, err = invoke("catalogue", "check", str(own))
    assert code == 2
    assert "storage_io.x: its sample goes to cuda_illegal_address.runtime (raise `priority` above 50 to take it)" in out
    assert "breaks 1 rule" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["chek", "x.toml"], "is no task"),
        (["check"], "check which file?"),
        (["check", "/no/such.toml"], "such.toml: cannot be read"),
    ],
)
def test_a_check_of_nothing_says_how(words: list[str], says: str, invoke: Invoke) -> None:
    """One clear line and exit 2."""
    code, out, err = invoke("catalogue", *words)
    assert (code, out) == (2, "")
    assert says in err


def test_dialects_lists_what_is_read(invoke: Invoke) -> None:
    """A line for each program; with --patterns a sample for each kind of line."""
    out = invoke("dialects")[1]
    assert "kinds of lines)" in out
    assert len(invoke("dialects", "--patterns")[1]) > 2 * len(out)


def test_version_and_help(invoke: Invoke) -> None:
    """Both on stdout; the help documents the exit codes."""
    assert invoke("--version")[1].startswith("correlator 0.")
    assert "12 undetermined" in invoke("-h")[1]


def test_text_that_the_terminal_cannot_show_is_spelt_out(
    pipeline: FakePipeline, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A terminal that knows only ASCII gets escapes, and no UnicodeEncodeError."""
    summary = dataclasses.replace(pipeline.diagnosis.verdict, summary="größer")
    pipeline.diagnosis = dataclasses.replace(pipeline.diagnosis, verdict=summary)
    with os.fdopen(os.dup(1), "w", encoding="ascii") as ascii_stdout:
        monkeypatch.setattr(sys, "stdout", ascii_stdout)
        with pytest.raises(SystemExit):
            main(["diagnose", "run"])
    assert rb"gr\xf6\xdfer" in capfdbinary.readouterr().out
