"""Search for inputs that break a law: `make fuzz`, or `python -m tests.fuzz --minutes 30`.

Three quarters of the time go to the targets of `targets.py`, coverage-guided by atheris (where it has no wheel: blind
changes of the seeds); the rest to the property tests of the whole suite, again and again with fresh seeds. What breaks
is written to `.fuzz/found/TARGET/`; mended and moved to `tests/fuzz/found/TARGET/`, it is replayed by every test run.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

NAMES = (
    "peeler", "timestamps", "pickles", "flight_recorder", "documents", "catalogue", "lines", "engines", "archives", "whole_run",
)  # fmt: skip
"""Of `targets.TARGETS`, which is imported only where atheris can watch the import."""
INSTRUMENTED = ["correlator.parsers", "correlator.core", "correlator.sources", "correlator.ingest", "correlator.graphs"]
HERE = Path(__file__).parent
FOUND = Path(".fuzz/found")
TARGET_SHARE = 0.75
LONGEST_INPUT = {"whole_run": 16_384, "archives": 8192, "lines": 4096, "catalogue": 4096}
SECONDS_AN_INPUT = 100
"""An input that takes longer hangs: each is of some kilobytes at most, and the machine may be busy with other things."""


@dataclass(slots=True)
class Tally:
    """What was tried and what broke."""

    inputs: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)


def main() -> None:
    """Fuzz for a number of minutes; exit 1 where something broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", default="", help="targets, by comma; `properties` for the property tests")
    parser.add_argument("--here", metavar="TARGET", choices=NAMES, help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.here:
        _fuzz_here(options.here, rest)
        return
    names = [name for name in (*NAMES, "properties") if not options.only or name in options.only.split(",")]
    tally = _search(names, options.minutes * 60)
    for name in names:
        print(f"{name:16} {tally.inputs.get(name, 0):10,} inputs")
    print(f"{'all':16} {sum(tally.inputs.values()):10,} inputs, {len(tally.broken)} broke a law")
    print(*tally.broken, sep="\n")
    raise SystemExit(1 if tally.broken else 0)


def _search(names: list[str], seconds: float) -> Tally:
    tally = Tally()
    targets = [name for name in names if name in NAMES]
    share = (TARGET_SHARE if "properties" in names else 1.0) * seconds / max(len(targets), 1)
    began = time.monotonic()
    for name in targets:
        deadline = time.monotonic() + share
        # A target that broke stops at once; its time is used to look for something else that breaks, five times at most.
        for _ in range(5):
            left = deadline - time.monotonic()
            if left < 5 or not _fuzz_target(name, left, tally):
                break
        print(f"{name}: {tally.inputs.get(name, 0):,} inputs", flush=True)
    while "properties" in names and time.monotonic() - began < seconds:
        _properties(tally)
    return tally


def _fuzz_target(name: str, seconds: float, tally: Tally) -> bool:
    """One run of the fuzzer in a process of its own; True where it found something."""
    from tests.fuzz.seeds import seeds

    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate([*seeds(name), *kept(name)]):
            (Path(corpus) / f"{number:05d}").write_bytes(seed)
        words = [
            f"-max_total_time={int(seconds)}",
            f"-max_len={LONGEST_INPUT.get(name, 2048)}",
            f"-timeout={SECONDS_AN_INPUT}",
            "-rss_limit_mb=3000",
            f"-artifact_prefix={found}/",
            "-print_final_stats=1",
            corpus,
        ]
        command = [sys.executable, "-m", "tests.fuzz", "--here", name, *words]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    counted = re.findall(r"number_of_executed_units: *(\d+)", done.stderr) or re.findall(
        r"^#(\d+)", done.stderr, re.MULTILINE
    )
    tally.inputs[name] = tally.inputs.get(name, 0) + int(counted[-1] if counted else 0)
    if done.returncode == 0:
        return False
    what = re.search(r"Test unit written to (\S+)", done.stderr)
    tail = "\n    ".join(done.stderr.strip().splitlines()[-400:])
    error = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*", done.stderr, re.MULTILINE)
    tally.broken.append(f"{name}: {what[1] if what else 'no input kept'}: {error[-1][:300] if error else tail[-600:]}")
    print(tally.broken[-1], flush=True)
    return True


def kept(name: str) -> Iterator[bytes]:
    """Inputs that broke this target once."""
    return (path.read_bytes() for path in sorted((HERE / "found" / name).glob("*")))


def _fuzz_here(name: str, words: list[str]) -> None:
    try:
        import atheris
    except ImportError:
        _blind(name, words)
        return
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.seeds import seeds
        from tests.fuzz.targets import TARGETS
    TARGETS[name](next(seeds(name)))  # what is compiled or loaded on first use is no input's fault
    atheris.Setup([sys.argv[0], *words], TARGETS[name])
    atheris.Fuzz()


def _blind(name: str, words: list[str]) -> None:
    """Chance alone: a seed with some bytes changed, cut, doubled or taken from another."""
    from tests.fuzz.seeds import seeds
    from tests.fuzz.targets import TARGETS

    options = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    deadline = time.monotonic() + float(options["max_total_time"])
    rng = random.Random(os.urandom(8))
    pool = [*seeds(name), *kept(name)]
    count = 0
    while time.monotonic() < deadline:
        data = bytearray(rng.choice(pool)[: int(options["max_len"])])
        for _ in range(rng.randint(1, 6)):
            place, other = rng.randrange(len(data) + 1), rng.choice(pool)
            end = place + rng.randint(0, 16)
            start = rng.randrange(len(other) + 1)
            data[place:end] = rng.choice(
                [rng.randbytes(rng.randint(0, 4)), other[start : start + 16], data[place:end] * 2]
            )
        count += 1
        try:
            TARGETS[name](bytes(data))
        except BaseException:
            path = Path(options["artifact_prefix"]) / f"crash-{hash(bytes(data)) & 0xFFFFFFFF:08x}"
            path.write_bytes(data)
            print(f"stat::number_of_executed_units: {count}\nTest unit written to {path}", file=sys.stderr)
            raise
    print(f"stat::number_of_executed_units: {count}", file=sys.stderr)


def _properties(tally: Tally) -> None:
    """All property tests once, with a seed of chance."""
    seed = random.Random(os.urandom(8)).randrange(1 << 30)
    words = [
        "-q",
        "-m",
        "hypothesis",
        "--hypothesis-profile=fuzz",
        f"--hypothesis-seed={seed}",
        "-p",
        "no:cacheprovider",
    ]
    words += ["--hypothesis-show-statistics", "tests"]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], capture_output=True, text=True, check=False)
    tried = sum(map(int, re.findall(r"(\d+) (?:passing|failing|invalid) examples", done.stdout)))
    tally.inputs["properties"] = tally.inputs.get("properties", 0) + tried
    print(f"properties with seed {seed}: {tried:,} inputs, {done.stdout.strip().splitlines()[-1:]}", flush=True)
    if done.returncode:
        failed = re.findall(r"^FAILED .*", done.stdout, re.MULTILINE) or done.stdout.splitlines()[-5:]
        tally.broken.extend(f"properties, seed {seed}: {line}" for line in failed)
        log = FOUND.parent / f"properties-{seed}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout)


if __name__ == "__main__":
    main()
