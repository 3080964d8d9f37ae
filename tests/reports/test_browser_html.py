"""The HTML report in a real browser: it opens, complains of nothing, asks nobody for anything, and runs no log line."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from correlator.reports import ReportFormat, render
from correlator.reports.cleaning import visible
from tests.helpers_reports import HOSTILE, failed_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-default-apps --disable-extensions --virtual-time-budget=2000"
).split()
CONSOLE = re.compile(r":CONSOLE[:(].*")
URL = re.compile(r"^(https?|wss?|ftp)://")
THE_BROWSER_ITSELF = "not an origin"
"""The initiator of what a browser asks for its own sake, such as the time; no page has it."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


@dataclass(frozen=True)
class Visit:
    """What a browser made of a page."""

    dom: str
    console: list[str]
    requests: list[str]


def visit(source: str, folder: Path) -> Visit:
    """Open a page from a file, with a new profile, and watch the console and the network."""
    page, net_log = folder / "report.html", folder / "net.json"
    page.write_text(source, encoding="utf-8")
    command = [
        str(CHROMIUM),
        *FLAGS,
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        "--enable-logging=stderr",
    ]
    command += [f"--log-net-log={net_log}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=100, check=True)
    log = json.loads(net_log.read_text(encoding="utf-8"))
    starts = [event["params"] for event in log["events"] if "initiator" in event.get("params", {})]
    asked = {start["url"] for start in starts if start["initiator"] != THE_BROWSER_ITSELF and URL.match(start["url"])}
    return Visit(done.stdout, CONSOLE.findall(done.stderr), sorted(asked))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """The report of a run whose every name and line is hostile."""
    out = io.StringIO()
    diagnosis, details = failed_run(64, HOSTILE)
    render(diagnosis, out, report=ReportFormat.HTML, details=details)
    return visit(out.getvalue(), tmp_path_factory.mktemp("hostile"))


def test_the_page_opens_and_complains_of_nothing(hostile: Visit) -> None:
    """The pictures are there, and nothing is on the console: also the page's own policy is kept."""
    assert hostile.dom.count("<svg") >= 3
    assert "What led to what" in hostile.dom
    assert hostile.console == []


def test_no_request_leaves(hostile: Visit) -> None:
    """Not for a font, an image, a script, nor for an address that a log line names."""
    assert hostile.requests == []


def test_log_text_is_text(hostile: Visit) -> None:
    """The browser knows no element that a log line spells, and shows the line as it is."""
    assert not re.search(r"<(script|img|iframe|link|a|form)[\s>]", hostile.dom)
    assert visible(HOSTILE) in html.unescape(hostile.dom)


def test_the_watch_would_see_it(tmp_path: Path) -> None:
    """A page that does ask and complain is caught, so that silence above means something."""
    seen = visit('<!doctype html><img src="http://127.0.0.1:9/x.png"><script>console.error("oh")</script>', tmp_path)
    assert seen.requests == ["http://127.0.0.1:9/x.png"]
    assert any("oh" in line for line in seen.console)
