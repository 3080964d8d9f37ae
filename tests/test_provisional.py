"""The first verdict: from the last lines alone, beside the reading, and never in its way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

import correlator.pipeline
from correlator.core.files import Compression, LogFile
from correlator.core.model import Verdict
from correlator.core.vocabulary import FileKind
from correlator.pipeline import open_run
from correlator.provisional import differs
from correlator.sources.tails import TAIL_BYTES, open_tail, tails

RUN = Path(__file__).parents[1] / "sample_runs" / "sim-xid79-hang-flat-5s-301" / "run"


def test_a_short_log_is_its_own_tail() -> None:
    """Where all files are short, the first verdict is the final one; it is told once."""
    told, done = [], Event()

    def tell(verdict: Verdict) -> None:
        told.append(verdict)
        done.set()

    final = open_run(RUN, workers=1, first_verdict=tell).diagnosis.verdict
    assert done.wait(60)
    assert len(told) == 1
    assert not differs(told[0], final)


def test_a_first_verdict_that_fails_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(correlator.pipeline, "_first_verdict", broken)
    run = open_run(RUN, workers=1, first_verdict=lambda _: pytest.fail("nothing can be told"))
    assert run.diagnosis.verdict.initiators


def test_verdicts_differ_by_who_and_what() -> None:
    verdict = open_run(RUN, workers=1).diagnosis.verdict
    assert not differs(verdict, replace(verdict, confidence=0.1, summary="other words"))
    assert differs(verdict, replace(verdict, initiators=()))
    other = replace(verdict.initiators[0], rank=7)
    assert differs(verdict, replace(verdict, initiators=(other,)))


@pytest.mark.parametrize("lines", [3, 40_000])
def test_a_tail_begins_with_a_line(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "rank_3.log"
    path.write_bytes(b"".join(b"line %08d\n" % number for number in range(lines)))
    file = LogFile("rank_3.log", str(path), FileKind.RANK_LOG, size_bytes=path.stat().st_size)
    (short,) = tails([file, replace(file, compression=Compression.GZIP)])
    with open_tail(short) as stream:
        data = stream.read() or b""
    assert data.startswith(b"line ")
    assert data.endswith(b"line %08d\n" % (lines - 1))
    assert len(data) <= short.size_bytes <= TAIL_BYTES
