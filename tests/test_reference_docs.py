"""The pages of docs/ are true: three are generated, and what the others show is what happens. --snapshot-update writes them anew."""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from correlator.cli.app import app, main
from correlator.core.catalogue import load_catalogue
from correlator.core.schema import COLUMNS, SCHEMA_VERSION, Kind, arrow_schema
from correlator.core.vocabulary import CollateralKind, Context, FaultCode, Role
from correlator.parsers.dialects import DIALECTS
from correlator.parsers.table import build_table
from correlator.parsers.whose import signatures_of

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
COMMANDS = [info.name for info in app.registered_commands if info.name]
WIDTH = "100"
CONSOLE = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n(?P<output>(?s:.*?))```")
PYTHON = re.compile(r"```python\n(?P<code>(?s:.*?))```")
KINDS = {
    Kind.TEXT: "text",
    Kind.LABEL: "text, few values (a dictionary)",
    Kind.INT32: "int32",
    Kind.INT64: "int64",
    Kind.UINT8: "uint8",
    Kind.UINT64: "uint64",
    Kind.FLOAT32: "float32",
    Kind.FLOAT64: "float64",
    Kind.TIME: "timestamp in ns, UTC",
    Kind.ATTRIBUTES: "list of (key, value), both text",
}


def correlator(*arguments: str, cwd: Path = ROOT) -> str:
    """What a command prints into a pipe; in this process, which has the patterns compiled."""
    kept = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "GITHUB_ACTIONS"}}
    environment = kept | {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    out = io.StringIO()
    with (
        patch.dict(os.environ, environment, clear=True),
        chdir(cwd),
        redirect_stdout(out),
        pytest.raises(SystemExit) as exit_,
    ):
        main(list(arguments))
    assert not exit_.value.code
    return tidy(out.getvalue())


def tidy(text: str) -> str:
    """Without what nobody sees: blanks at the ends of lines and of the text."""
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


def event_table_page() -> str:
    """docs/event_table.md, from the declaration of the columns and the vocabularies."""
    rows = [
        f"| `{c.name}` | {KINDS[c.kind]} | {'yes' if c.nullable else 'no'} | {c.doc} | {f'`{c.otel}`' if c.otel else ''} |"
        for c in COLUMNS
    ]
    names = {
        Role.INITIATING: [str(code) for code in FaultCode],
        Role.COLLATERAL: [str(kind) for kind in CollateralKind],
        Role.CONTEXT: [str(name) for name in Context],
    }
    meanings = {
        Role.INITIATING: "faults, each of which can start a failure (`correlator explain CODE` tells more)",
        Role.COLLATERAL: "ways to be dragged into one",
        Role.CONTEXT: "facts that place, time or order the others",
    }
    roles = [f"- `{role}`: {meanings[role]}: {', '.join(f'`{name}`' for name in names[role])}." for role in Role]
    return "\n".join(
        [
            "# The event table",
            "",
            "<!-- Generated from correlator/core/schema.py and vocabulary.py; tests/test_reference_docs.py writes it anew. -->",
            "",
            f"`run.events`, `correlator events --json` and a `timeline.parquet` have these columns (schema version {SCHEMA_VERSION}).",
            "Names follow the OpenTelemetry log data model in snake case; the last column has the names of OpenTelemetry.",
            "In Parquet both the meaning and the OpenTelemetry name are in the metadata of each field (`doc`, `otel`).",
            "",
            "| column | type | may be null | meaning | OpenTelemetry |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            "## What an event can be",
            "",
            "`event_name` says what a line means, `role` what part it can have in a failure. Whether it was the cause is for",
            "the causal graph to say, not for the line.",
            "",
            *roles,
            "",
            "## All lines",
            "",
            "`correlator timeline --all-lines` writes every line of every file besides the events: rows with `event_name = 'line'`,",
            "whose `body` is the line as it was printed (control characters removed, 16,384 characters at most). An event and the",
            "line that it begins with have the same `log_file_path` and `byte_offset`. Files that are one document (flight-recorder",
            "dumps, `error.json`) have events only.",
            "",
            "With `--partition` (the default beyond 1,000 ranks) the timeline is a folder with one file for each node,",
            "`host_name=node03/part-0.parquet`, as Hive lays them out; rows without a node are under `host_name=(none)`. polars, pandas",
            "and pyarrow open the folder, DuckDB `FROM 'timeline.parquet/**/*.parquet'`.",
            "",
            "## Metadata of the file",
            "",
            "| key | holds |",
            "| --- | --- |",
            "| `correlator.schema_version` | the version of the columns above |",
            "| `correlator.version` | the version that wrote it |",
            "| `correlator.content` | `events` or `all_lines` |",
            "| `correlator.diagnosis` | the diagnosis as JSON (`correlator schema`) |",
            "| `correlator.clocks` | the clock estimates as JSON |",
            "| `correlator.stored` | what `correlator` needs to open the file again with the same verdict |",
            "",
        ]
    )  # fmt: skip


def commands_page() -> str:
    """docs/commands.md, from the help of each command."""
    parts = [
        "# Commands",
        "",
        "<!-- Generated from the help of each command; tests/test_reference_docs.py writes it anew. -->",
        "",
        "```text",
        correlator("--help").rstrip(),
        "```",
    ]
    for command in COMMANDS:
        parts += ["", f"## correlator {command}", "", "```text", correlator(command, "--help").rstrip(), "```"]
    return "\n".join(parts) + "\n"


def dialects_page() -> str:
    """docs/dialects.md, from the registry of dialects."""
    return correlator("dialects", "--markdown")


PAGES = [("event_table.md", event_table_page), ("commands.md", commands_page), ("dialects.md", dialects_page)]


@pytest.mark.parametrize(("name", "page"), PAGES, ids=[name for name, _ in PAGES])
def test_generated_pages_are_up_to_date(name: str, page: object, request: pytest.FixtureRequest) -> None:
    """A changed column, option or kind of line is a changed page."""
    wanted = page()  # type: ignore[operator]
    if request.config.getoption("update_snapshots"):
        (DOCS / name).write_text(wanted, encoding="utf-8")
    assert (DOCS / name).read_text(encoding="utf-8") == wanted, "pytest --snapshot-update writes it anew"


def worked_example(language: str) -> str:
    """The one block of a language in CONTRIBUTING.md."""
    (block,) = re.findall(rf"```{language}\n((?s:.*?))```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert block.count("\n") < 20
    return str(block)


def test_the_worked_example_of_a_dialect_reads_its_line() -> None:
    """What CONTRIBUTING.md shows is a dialect that can be registered as it stands."""
    namespace: dict[str, object] = {}
    exec(worked_example("python"), namespace)
    (pattern,) = namespace["DIALECT"].patterns  # type: ignore[attr-defined]
    table = build_table((*DIALECTS, namespace["DIALECT"]), load_catalogue().signatures)  # type: ignore[arg-type]
    assert signatures_of(pattern.samples[0], table) == (pattern.id,)
    assert signatures_of(pattern.lookalikes[0], table) == ()


def test_the_worked_example_of_a_signature_passes_its_check(tmp_path: Path) -> None:
    """And the command that is shown with it says so."""
    (tmp_path / "my.toml").write_text(worked_example("toml"))
    assert correlator("catalogue", "check", "my.toml", cwd=tmp_path).endswith("nothing to object to\n")


def test_every_column_is_in_the_arrow_schema_with_its_words() -> None:
    """What the page says of a column is what its field's metadata say."""
    for column in COLUMNS:
        assert arrow_schema().field(column.name).metadata[b"doc"].decode() == column.doc


def test_the_tutorial_shows_what_is_printed(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Each block of a console that begins with `$ correlator` is run, in one folder, and compared; `| head -N` is understood."""
    page = DOCS / "tutorial.md"
    text = page.read_text(encoding="utf-8")
    (tmp_path / "sample_runs").symlink_to(ROOT / "sample_runs")
    shown = list(CONSOLE.finditer(text))
    assert len(shown) >= 6
    fresh, end = "", 0
    for block in shown:
        printed = run_line(block["command"], tmp_path)
        fresh += text[end : block.start("output")] + printed
        end = block.end("output")
        if not request.config.getoption("update_snapshots"):
            assert block["output"] == printed, block["command"]
    if request.config.getoption("update_snapshots"):
        page.write_text(fresh + text[end:], encoding="utf-8")


def run_line(line: str, folder: Path) -> str:
    """What a line of the tutorial prints: one command, perhaps cut off by `| head -N`."""
    command, _, rest = line.partition(" | head -")
    program, *arguments = shlex.split(command)
    assert program == "correlator"
    lines = correlator(*arguments, cwd=folder).splitlines(keepends=True)
    return "".join(lines[: int(rest)] if rest else lines)


def python_blocks(page: Path) -> Iterator[tuple[int, str]]:
    """(line, code) of each block of Python."""
    text = page.read_text(encoding="utf-8")
    for block in PYTHON.finditer(text):
        yield text.count("\n", 0, block.start("code")), block["code"]


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_python_in_the_docs_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page, one after the other, in one namespace; an assert in them is a claim that is checked."""
    for module in ("altair", "duckdb", "pandas"):
        pytest.importorskip(module)
    (tmp_path / "sample_runs").symlink_to(ROOT / "sample_runs")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for line, code in python_blocks(DOCS / page):
        exec(compile("\n" * line + code, page, "exec"), namespace)


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_in_the_docs_lead_somewhere(page: str) -> None:
    """Relative ones, to files of the repository."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?!https?:|#)[^)#]+)", text):
        assert (DOCS / target).exists(), target
