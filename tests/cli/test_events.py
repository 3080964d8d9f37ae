"""`correlator events`: all ranks in the order of time, filtered, harmless, and through a pager on a terminal only."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from correlator.cli import pager
from correlator.cli.app import main

SAMPLE = Path(__file__).resolve().parents[2] / "sample_runs" / "real-dataset-keyerror-003" / "run"
Outcome = tuple[int, str, str]
Invoke = Callable[..., Outcome]


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample with all its lines, so that it is parsed once."""
    path = tmp_path_factory.mktemp("events") / "t.parquet"
    with pytest.raises(SystemExit) as exit_:
        main(["timeline", str(SAMPLE), "-o", str(path), "--all-lines", "--quiet"])
    assert not exit_.value.code
    return path


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run the command line in this process: (exit code, stdout, stderr)."""
    for name in ("NO_COLOR", "FORCE_COLOR", "PAGER", "CORRELATOR_PAGER"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str | Path) -> Outcome:
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run


def test_all_ranks_are_merged_in_the_order_of_time(timeline: Path, invoke: Invoke) -> None:
    """A row an event, the day above them, nothing on stderr; times never go back."""
    code, out, err = invoke("events", timeline)
    assert (code, err) == (0, "")
    first, *rows = out.splitlines()
    assert re.fullmatch(r"--- \d{4}-\d\d-\d\d( UTC)?", first)
    clocks = [row[1:13] for row in rows if not row.startswith("---") and "(no time)" not in row]
    assert clocks == sorted(clocks)
    assert {match[1] for row in rows if (match := re.search(r" \[(\d)\] ", row))} == set("01234567")


def test_a_row_says_when_who_what_and_where(timeline: Path, invoke: Invoke) -> None:
    """Time, node, rank, event, message, file:line."""
    out = invoke("events", timeline, "--event", "data_error", "--rank", "5")[1]
    row = out.splitlines()[1]
    assert row.startswith(">"), "the exception has no time of its own"
    assert re.match(r".\d\d:\d\d:\d\d\.\d{3} +node01 \[5\] +. data_error +KeyError: 'mixed' \(\S+:\d+\)$", row)


def test_uncertain_order_is_marked(timeline: Path, invoke: Invoke) -> None:
    """Rows of different nodes within the margin of their clocks begin with a ~, those of one file never do."""
    rows = invoke("events", timeline)[1].splitlines()
    assert any(row.startswith("~") for row in rows)
    of_one_file = [row for row in rows if row.endswith(")") and "agent_node00.log" in row]
    alone = invoke("events", timeline, "--grep", "closing signal", "--node", "node00")[1].splitlines()[1:]
    assert of_one_file
    assert alone
    assert not [row for row in alone if row.startswith("~")]


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        (("--rank", "4-5"), r"\[[45]\]"),
        (("--node", "node0[1]"), r" node01 "),
        (("--event", "remote_*"), r"remote_peer_lost"),
        (
            ("--event", "collateral,initiating"),
            r"remote_peer_lost|data_error|secondary_abort|launcher_report|terminated",
        ),
        (("--grep", "(?i)KEYERROR"), r"KeyError|Traceback|data_error"),
        (("--since", "5 seconds ago"), r"^[ ~>]01:57:[34]"),
    ],
)
def test_filters_leave_what_they_say(options: tuple[str, ...], pattern: str, timeline: Path, invoke: Invoke) -> None:
    """And something, but not everything."""
    everything = invoke("events", timeline)[1].splitlines()
    rows = [row for row in invoke("events", timeline, *options)[1].splitlines() if not row.startswith("---")]
    assert 0 < len(rows) < len(everything)
    assert not [row for row in rows if not re.search(pattern, row)]


def test_rows_around_a_line_as_the_reports_cite_it(timeline: Path, invoke: Invoke) -> None:
    """FILE:LINE in the middle, as many rows on both sides as asked for, and a rule where rows are left out."""
    rows = invoke("events", timeline, "--all-lines", "--around", "agent_node01.log:7", "-C", "3")[1].splitlines()[1:]
    assert len(rows) == 7
    assert rows[3].endswith("(agent_node01.log:7)")
    gaps = invoke("events", timeline, "--event", "data_error", "-C", "1")[1].splitlines()
    assert "--" in gaps


def test_all_lines_show_where_events_begin(timeline: Path, invoke: Invoke) -> None:
    """The line as it was printed, its event behind it; --event finds it by that name."""
    out = invoke("events", timeline, "--all-lines", "--event", "data_error")[1]
    assert "<data_error>" in out
    assert len(invoke("events", timeline, "--all-lines")[1].splitlines()) > 400


def test_unclassified_lines(timeline: Path, invoke: Invoke) -> None:
    """Lines that no pattern knows: input for new ones."""
    out = invoke("events", timeline, "--unclassified")[1]
    assert "hostname of the client socket cannot be retrieved" in out
    assert "KeyError: 'mixed'" not in out


def test_json_lines_have_all_columns(timeline: Path, invoke: Invoke) -> None:
    """An object a row; ids as text, since many readers of JSON lose digits; the same events as the text."""
    rows = [json.loads(line) for line in invoke("events", timeline, "--event", "data_error", "--json")[1].splitlines()]
    assert {row["event_name"] for row in rows} == {"data_error"}
    assert all(isinstance(row["event_id"], str) and isinstance(row["order_uncertain"], bool) for row in rows)
    assert rows[0]["exception_type"] == "KeyError"
    around = invoke("events", timeline, "--around", rows[0]["event_id"], "-C", "0", "--json")[1].splitlines()
    assert rows[0]["event_id"] in {json.loads(row)["event_id"] for row in around}


def test_ranks_have_colours(timeline: Path, invoke: Invoke) -> None:
    """On demand; the same rank always the same, and red is for faults."""
    out = invoke("events", timeline, "--color", "always", "--event", "data_error,progress")[1]
    colors = {match[2]: match[1] for match in re.finditer(r"\x1b\[([\d;]+)mnode0\d \[(\d)\]", out)}
    assert len(set(colors.values())) == len(colors) > 4
    assert "\x1b[1;31mdata_error\x1b[0m" in out


def test_nothing_found_is_said(timeline: Path, invoke: Invoke) -> None:
    """On stderr, unless --quiet; exit 0: an empty answer is one."""
    assert invoke("events", timeline, "--rank", "77") == (0, "", "correlator: nothing matches\n")
    assert invoke("events", timeline, "--rank", "77", "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    "options",
    [("--rank", "x"), ("--node", "nope"), ("--event", "nope"), ("--since", "nope"), ("--grep", "("), ("--around", "x:1"),
     ("--context", "-1"), ("--level", "loud")],
)  # fmt: skip
def test_typos_are_usage_errors(options: tuple[str, ...], timeline: Path, invoke: Invoke) -> None:
    """Exit 2, one sentence, nothing on stdout."""
    code, out, err = invoke("events", timeline, *options)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run whose lines try to harm a terminal and to leak a credential."""
    evil = "\x1b]0;title\x07\x1b[2Jboo \u202emirrored api_key=abcdef123456789 \x9b31m"
    text = (
        f"2026-01-01 00:00:01,000 INFO step 1\nTraceback (most recent call last):\nValueError: {evil}\n{evil}\n"
        + "x" * 300_000
    )
    (tmp_path / "rank_0.log").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "options", [(), ("--all-lines",), ("--json",), ("--json", "--all-lines"), ("--color", "never")]
)
def test_log_text_is_harmless_and_credentials_are_masked(
    options: tuple[str, ...], hostile: Path, invoke: Invoke
) -> None:
    """No control character but the newline, no direction mark, no credential, no line without end in the text form."""
    code, out, _ = invoke("events", hostile, "--no-pager", *options)
    assert code == 0
    assert "boo" in out
    assert "abcdef123456789" not in out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)
    if "--json" not in options:
        assert max(map(len, out.splitlines())) < 5_000


def test_a_terminal_gets_a_pager(
    timeline: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The user's own, without a shell, with options that suit colours; --no-pager and PAGER=cat switch it off."""
    seen = tmp_path / "seen"
    program = f"import os, sys; open({str(seen)!r}, 'w').write(os.environ['LESS'] + sys.stdin.read())"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("PAGER", f'"{sys.executable}" -c "{program}"')
    monkeypatch.delenv("LESS", raising=False)
    assert invoke("events", timeline, "--event", "data_error", "-q")[1] == ""
    assert "data_error" in seen.read_text()
    assert seen.read_text().startswith(pager.LESS_OPTIONS)
    seen.unlink()
    assert "data_error" in invoke("events", timeline, "--event", "data_error", "-q", "--no-pager")[1]
    monkeypatch.setenv("PAGER", "cat")
    assert "data_error" in invoke("events", timeline, "--event", "data_error", "-q")[1]
    assert not seen.exists()


def test_a_pager_that_is_left_early_ends_the_command_quietly(
    timeline: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `q` in less does."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("CORRELATOR_PAGER", f'"{sys.executable}" -c "pass"')
    code, out, err = invoke("events", timeline, "--all-lines", "-q")
    assert (code, out, err) == (0, "", "")


def test_standard_input_has_events_and_no_second_reading(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pasted log is fine; all its lines would need a file."""
    import io

    class Stdin:
        buffer = io.BytesIO((SAMPLE / "agent_node01.log").read_bytes())

    monkeypatch.setattr("sys.stdin", Stdin())
    code, _, err = invoke("events", "-", "--all-lines")
    assert code == 2
    assert "only once" in err
