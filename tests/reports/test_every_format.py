"""One hostile run with secrets in it, through the command line, in every format that a person may share."""

from __future__ import annotations

import ast
import gzip
import html.parser
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import polars as pl
import pyarrow.parquet as pq
import pytest

from correlator import pipeline
from correlator.cli.app import main
from correlator.pipeline import open_run
from correlator.reports.markdown import MOST_LINES

# Put together here, so that no scanner takes this file for a leak.
KEY = "Zx9" * 8
SECRETS = (KEY, "hunter22", "zoe.quux@mail.example.org")
PLACES = ("gpubox-17", "gpubox-18", "zquux", "10.77.3.9")
EVIL = (
    "</script><script>alert(1)</script> ]]> --> <!-- <img src=x onerror=alert(2)> {{7*7}} \x1b[31mred\x1b[0m "
    '\x1b]0;title\x07 \x1b]8;;http://evil.example\x1b\\link \u202eflip\u2066 \x9b1m ``` ```` | **b** [l](http://evil.example) "]; '
    'click g0 "http://evil.example" %%{init: {}}%% $x$ @team \\" ${HOME} `id` </svg></style></title>'
)
LEAK = (
    f"HF_TOKEN={KEY} cloning https://zoe:hunter22@git.example.org/r.git as zoe.quux@mail.example.org from "
    "/home/zquux/llama on gpubox-17.cluster.local (10.77.3.9)"
)
SCARY = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
FORMATS: dict[str, tuple[str, ...]] = {
    "text": ("diagnose", "--verbose"),
    "colour": ("diagnose", "--color", "always"),
    "json": ("diagnose", "--json"),
    "markdown": ("diagnose", "--format", "markdown"),
    "html": ("diagnose", "--format", "html"),
    "events": ("events", "--no-pager"),
    "events json": ("events", "--json"),
    "all lines": ("events", "--all-lines", "--no-pager"),
    "clocks": ("clocks",),
    "timeline.parquet": ("timeline",),
    "lines.parquet": ("timeline", "--all-lines"),
    "trace.json": ("trace",),
    "trace.json.gz": ("trace",),
    "graph.graphml": ("graph",),
    "graph.dot": ("graph",),
    "graph.mmd": ("graph",),
    "graph.json": ("graph",),
    "story.ipynb": ("notebook",),
}


def stamp(second: int) -> str:
    return f"2026-03-02 10:00:{second:02d},250"


def failing(rank: int, words: str) -> Iterator[str]:
    """A rank that trains and then fails with these words."""
    yield f"{stamp(1)} INFO [rank{rank}] global rank {rank} of world size 4 on gpubox-{17 + rank // 2}"
    for step in range(1, 6):
        yield f"{stamp(step + 1)} INFO step {step} | loss {3 - step / 10} | step_time 1.000s"
    yield f"{stamp(10)} ERROR {words}"
    yield "Traceback (most recent call last):"
    yield '  File "/home/zquux/llama/train.py", line 7, in f'
    yield f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. {words}"


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks on two nodes; one tells everything that can harm or leak, one pretends to be another, one never ends."""
    run = tmp_path_factory.mktemp("hostile") / "run"
    for node in ("gpubox-17", "gpubox-18"):
        (run / node).mkdir(parents=True)
    (run / "gpubox-17" / "rank_0.log").write_text("\n".join(failing(0, f"{LEAK} {EVIL}")), encoding="utf-8")
    fake = [f"[rank{rank}]: RuntimeError: I am rank {rank} {EVIL}" for rank in (0, 2, 99, 2**31)]
    quiet = [line for line in failing(1, "") if "ERROR" not in line][:7]
    (run / "gpubox-17" / "rank_1.log").write_text("\n".join([*quiet, *fake]), encoding="utf-8")
    (run / "gpubox-18" / "rank_2.log").write_text("\n".join([*quiet, "x" * 1_000_000 + EVIL]), encoding="utf-8")
    lost = f"RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.77.3.9]:12345 {EVIL}"
    named = run / "gpubox-18" / "rank_3<img src=x onerror=alert(3)>.log"
    named.write_text(
        "\n".join([*quiet, f"{stamp(11)} ERROR gone", "Traceback (most recent call last):", lost]), encoding="utf-8"
    )
    kernel = f"Mar  2 10:00:11 gpubox-18 kernel: [  99.5] NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name={EVIL}"
    (run / "gpubox-18" / "kern.log").write_text(kernel + "\n", encoding="utf-8")
    return run


@cache
def opened(path: Path) -> Any:
    return open_run(path, workers=1)


@pytest.fixture
def written(
    request: pytest.FixtureRequest,
    hostile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str | Path]:
    """What a command writes in a format: its standard output, or its file."""
    monkeypatch.setattr(pipeline, "open_run", lambda run, **_: opened(Path(run[0])))
    monkeypatch.chdir(hostile.parent)

    def run(name: str, *options: str) -> str | Path:
        file = tmp_path / name.replace(" ", "_")
        to_file = ["-o", str(file)] if "." in name else []
        command, *more = FORMATS[name]
        with pytest.raises(SystemExit) as exit_:
            main([command, "run", *more, *to_file, *options, "--quiet"])
        assert not exit_.value.code, capsys.readouterr().err
        return file if to_file else capsys.readouterr().out

    return run


def all_text(output: str | Path) -> str:
    """Everything that somebody who is given the output can read."""
    if isinstance(output, str):
        return output
    if output.suffix == ".parquet":
        rows = pl.read_parquet(output)
        metadata = pq.read_schema(output).metadata or {}
        return rows.write_json() + "".join(f"{key!r} {value!r}" for key, value in metadata.items())
    if output.suffix == ".gz":
        return gzip.decompress(output.read_bytes()).decode()
    return output.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_credentials_are_masked_by_default(name: str, written: Callable[..., str | Path]) -> None:
    """Tokens, passwords and e-mail addresses, while what names them is kept."""
    text = all_text(written(name))
    assert [secret for secret in SECRETS if secret in text] == []
    if name not in {"clocks", "graph.mmd", "colour"}:
        assert "HF_TOKEN=***" in text.replace("\\", "") or "HF_TOKEN" not in text
    assert "gpubox-17" in text or name == "graph.mmd"


@pytest.mark.parametrize("name", FORMATS)
def test_people_and_places_are_masked_on_request(name: str, written: Callable[..., str | Path]) -> None:
    """Home directories, hosts and addresses, each by one name in all of a report."""
    text = all_text(written(name, "--mask"))
    assert [place for place in (*SECRETS, *PLACES) if place in text] == []
    assert "host1" in text or name == "graph.mmd"
    if "/home/" in text:
        assert set(re.findall(r"/home/(\w+)", text)) == {"user1"}


def test_the_timeline_is_unmasked_only_on_request(written: Callable[..., str | Path], tmp_path: Path) -> None:
    """Then it is as it was printed."""
    assert KEY in all_text(written("timeline.parquet", "--unmasked"))


@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("name", ["timeline.parquet", "lines.parquet"])
def test_masking_changes_no_verdict(name: str, places: bool, hostile: Path, written: Callable[..., str | Path]) -> None:
    """A masked timeline gives the masked verdict."""
    output = written(name, *(["--mask"] if places else []))
    assert isinstance(output, Path)
    run = opened(Path("run"))
    assert open_run(output).diagnosis.verdict == run.masked(places=places).diagnosis.verdict
    assert run.masked(places=True).diagnosis.verdict.initiators[0].rank == run.diagnosis.verdict.initiators[0].rank


class Page(html.parser.HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= set(attrs)


def harmless_html(text: str) -> None:
    page = Page()
    page.feed(text)
    assert not page.tags & {"script", "img", "iframe", "object", "embed", "a", "link", "form", "input", "foreignobject"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in {"href", "src", "action"}]
    assert "&lt;script&gt;alert(1)" in text


def harmless_markdown(text: str) -> None:
    """Markup of the run stands in code alone, and no code block is left early."""
    assert text.count("\n") < MOST_LINES
    assert "```mermaid" in text or "mermaid" not in text
    fence, outside = "", []
    for line in text.splitlines():
        match = re.fullmatch(r"(`{3,})(\w*)", line)
        if fence:
            fence = "" if match and not match[2] and len(match[1]) >= len(fence) else fence
        elif match:
            fence = match[1]
        else:
            outside.append(line)
    assert not fence
    words = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", "\n".join(outside))
    assert not re.search(r"(?<!\\)<(?!/?sub>)|(?<!\\)!?\[|http://|(?<!\\)\*\*b", words)


def harmless_notebook(text: str) -> None:
    """Code cells hold our own code and literals; words hold no markup of the run."""
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
            assert names <= {"alt", "correlator", "run", "pl", "line", "print"}, source
        else:
            assert not re.search(r"(?<!\\)<(?!/?(?:sub|br)>)|http://|\]\(http", source), source


QUOTES_NOTHING = {"clocks", "graph.mmd", "graph.dot", "markdown", "story.ipynb"}
"""Formats with no line of the run in them, or with its brackets escaped."""
CHECKS: dict[str, Callable[[str], object]] = {
    "html": harmless_html,
    "markdown": harmless_markdown,
    "story.ipynb": harmless_notebook,
    "json": json.loads,
    "trace.json": json.loads,
    "trace.json.gz": json.loads,
    "graph.json": lambda text: nx.node_link_graph(json.loads(text), edges="links"),
    "graph.graphml": nx.parse_graphml,
    "events json": lambda text: [json.loads(line) for line in text.splitlines()],
}


@pytest.mark.parametrize("name", [name for name in FORMATS if not name.endswith(".parquet")])
def test_a_hostile_run_is_harmless(name: str, written: Callable[..., str | Path]) -> None:
    """No control character, no direction mark, no markup, nothing that runs; and a size that a person can open."""
    text = all_text(written(name))
    assert len(text) < 400_000 or name == "events json"
    if name == "colour":
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert not SCARY.search(text)
    assert "alert(1)" in text or name in QUOTES_NOTHING
    CHECKS.get(name, len)(text)


def test_fake_prefixes_convince_nobody(hostile: Path) -> None:
    """Lines that pretend to be of other ranks accuse none of them."""
    run = opened(Path("run") if Path("run").is_dir() else hostile)
    assert {initiator.rank for initiator in run.diagnosis.verdict.initiators} <= {0, 3, None}
    assert max(place.rank for place in run.topology.ranks) < 2**31
