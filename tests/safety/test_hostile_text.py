"""What hostile lines, file names and host names can do to the reader of any output: nothing. From files to every format."""

from __future__ import annotations

import gzip
import html.parser
import json
import re
from functools import cache
from pathlib import Path

import pytest

from correlator.cli.app import main

SECRETS = (
    "hf_abcdefghijklmnopqrstuvwx", "AKIAIOSFODNN7EXAMPLE", "ghp_0123456789abcdefghijABCDEFGHIJ012345", "s3cr3t-Passw0rd",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
)  # fmt: skip
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil.example/\x07click\x1b]8;;\x07\x1b]52;c;ZWNobw==\x07\x1bP+q\x1b\\",
    "\x9b31m\x85\x90\u202eevil\u2066\u200b\ufeff",
    "<script>alert(1)</script><img src=x onerror=alert(2)></pre></body><svg/onload=alert(3)>",
    "```\n".strip() + " ~~~ [click](javascript:alert(1)) ![x](http://evil.example/pixel) | a | <details> @everyone #1",
    'a["x"]; click a "http://evil.example"; %%{init: {}}%% end subgraph --> "]',
    '"; } digraph evil { a [URL="http://evil.example"]; \\"',
    '","verdict":{"status":"no_failure"}} \\u0000 </json>',
    "=cmd|' /C calc'!A0 +1 -1 @SUM(1)",
    "{{ config }} {% for x in y %} ${HOME} `id` $(id) %s %n {0.__class__}",
    f"https://bob:{SECRETS[3]}@evil.example/ token={SECRETS[0]} {SECRETS[1]} {SECRETS[2]}",
    f"Authorization: Bearer {SECRETS[4]}",
)
NAME = "node01\x1b[31m<b>[x](http:evil)|`$(id)`\u202e.log"
COMMANDS = (
    "diagnose",
    "diagnose --verbose",
    "diagnose --json",
    "diagnose --format markdown",
    "diagnose --format html",
    "diagnose --format html --verbose",
    "events",
    "events --json",
    "events --all-lines",
    "events --all-lines --json",
    "events --unclassified",
    "clocks",
    "clocks --json",
    "graph --format dot",
    "graph --format mmd",
    "graph --format graphml",
    "graph --format json",
)
FILES = {"trace": "trace.json", "notebook": "n.ipynb"}
EVERYTHING = (*COMMANDS, *FILES)


@cache
def hostile_run(root: Path) -> Path:
    """An out-of-memory error of rank 1 among lines, values and names that mean harm."""
    run = root / "run"
    run.mkdir()
    lines = [f"[rank1]: 2026-03-02 17:05:{n:02d},000 INFO {text}" for n, text in enumerate(HOSTILE)]
    lines += [
        f"[rank1]: 2026-03-02 17:06:{n:02d},000 ERROR {text} RuntimeError: {text}" for n, text in enumerate(HOSTILE)
    ]
    lines += [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/w/<script>.py", line 3, in <module>',
        "[rank1]:     f()",
    ]
    lines += [f"[rank1]: torch.OutOfMemoryError: CUDA out of memory. {' '.join(HOSTILE)}"]
    lines += [f"[rank1]: [WARNING] {text} Xid" for text in HOSTILE]
    (run / NAME).write_bytes("\n".join(lines).encode("utf-8", "surrogatepass") + b"\n\xff\xfe\x00 [rank1]: end \xc3\n")
    killed = [
        f"Mar  2 17:07:{n:02d} node-01 kernel: Out of memory: Killed process 7 ({text})"
        for n, text in enumerate(HOSTILE)
    ]
    (run / "kern.log").write_text("\n".join(killed), encoding="utf-8", errors="replace")
    (run / "error.json").write_text(json.dumps({"message": {"message": f"ValueError: {HOSTILE[2]} {HOSTILE[9]}"}}))
    return run


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every command gives out, by command."""
    import contextlib
    import io

    root = tmp_path_factory.mktemp("hostile")
    run, given = hostile_run(root), {}
    for command in COMMANDS:
        out = io.StringIO()
        name, *options = command.split()
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as end:
            main([name, str(run), *options, "--quiet", "--workers", "1", *(["--no-pager"] if name == "events" else [])])
        assert not end.value.code, command
        given[command] = out.getvalue()
    for command, file in FILES.items():
        with pytest.raises(SystemExit) as end:
            main([command, str(run), "-o", str(root / file), "--quiet", "--workers", "1"])
        assert not end.value.code, command
        given[command] = (root / file).read_text()
    return given


@pytest.mark.parametrize("command", EVERYTHING)
def test_no_output_holds_what_a_terminal_obeys(outputs: dict[str, str], command: str) -> None:
    """C0 and C1 controls, and the marks that turn text around or hide it."""
    text = outputs[command]
    assert len(text) > 100
    found = re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert found is None, ascii(text[max(0, found.start() - 60) : found.end() + 20])


@pytest.mark.parametrize("command", EVERYTHING)
def test_no_output_holds_a_credential(outputs: dict[str, str], command: str) -> None:
    assert not [secret for secret in SECRETS if secret in outputs[command]]


@pytest.mark.parametrize(
    "command",
    [command for command in EVERYTHING if "--json" in command or command == "graph --format json" or command in FILES],
)
def test_json_stays_json(outputs: dict[str, str], command: str) -> None:
    text = outputs[command]
    for document in text.splitlines() if command.startswith("events") else [text]:
        assert isinstance(json.loads(document), dict | list)


class _Page(html.parser.HTMLParser):
    """Notes what a browser would run or fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.harm: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            outside = name in {"src", "href", "action", "data", "xlink:href"} and not (value or "").startswith(
                ("#", "data:image/")
            )
            if name.startswith("on") or outside or "javascript:" in (value or ""):
                self.harm.append(f"<{tag} {name}={value!r}>")
        if tag in {"img", "iframe", "object", "embed", "base", "link", "form", "foreignobject"}:
            self.harm.append(f"<{tag}>")


@pytest.mark.parametrize("command", ["diagnose --format html", "diagnose --format html --verbose"])
def test_a_page_runs_and_fetches_nothing_of_the_logs(outputs: dict[str, str], command: str) -> None:
    page = _Page()
    page.feed(outputs[command])
    assert not page.harm
    assert "alert(1)" not in "".join(re.findall(r"<script[^>]*>(.*?)</script>", outputs[command], re.DOTALL))
    assert "&lt;script&gt;" in outputs[command], "it is shown, as text"


def test_markdown_keeps_log_text_in_code(outputs: dict[str, str]) -> None:
    text = re.sub(
        r"^(`{3,}|~{3,}).*?^\1[^\S\n]*$", "", outputs["diagnose --format markdown"], flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert "](javascript:" not in text
    assert "](http://evil" not in text
    assert not re.search(r"(?<!\\)<(?:script|img|svg|details)\b", text)  # a backslash makes it text


def test_spreadsheets_get_no_formula(outputs: dict[str, str]) -> None:
    """There is no CSV output; rows of `events`, the nearest to it, begin with a time or a place and never with log text."""
    for line in outputs["events"].splitlines():
        assert not line.lstrip("~ ").startswith(("=", "+", "@", "-1", "\t="))


def test_the_names_of_files_are_text_too(outputs: dict[str, str]) -> None:
    assert "<b>[x]" not in outputs["diagnose --format html"]
    assert any("node01" in text for text in outputs.values())


def test_compressed_traces_hold_the_same(tmp_path: Path) -> None:
    run = hostile_run(tmp_path)
    with pytest.raises(SystemExit):
        main(["trace", str(run), "-o", str(tmp_path / "t.json.gz"), "--quiet", "--workers", "1"])
    text = gzip.decompress((tmp_path / "t.json.gz").read_bytes()).decode()
    assert not [secret for secret in SECRETS if secret in text]
