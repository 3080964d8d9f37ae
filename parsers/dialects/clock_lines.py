"""Clock steps as chrony, ntpd, timesyncd and systemd report them (formats.md H5)."""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, Hit, Layer, LinePattern
from correlator.parsers.dialects.support import with_attributes

_SYSTEM = frozenset({Layer.SYSLOG, Layer.KERNEL})
_SOURCE = "formats.md H5"
_PROGRAM = r"(?:[0-9]{1,2} [A-Z][a-z]{2} [0-9:]{8} )?(?:[A-Za-z][A-Za-z0-9_.-]*\[[0-9]+\]: )?"
_AMOUNT = r"([+-]?[0-9]+\.?[0-9]*)"


def _stepped(hit: Hit) -> Iterable[Event]:
    """`step_s` is positive where the clock was set forward."""
    yield with_attributes(hit.make(), step_s=float(hit.match[1]))


def _slewed(hit: Hit) -> Iterable[Event]:
    """The clock was wrong by this much (positive = behind) and is being corrected gradually, without a step."""
    yield with_attributes(hit.make(), offset_s=float(hit.match[1]), slewed=True)


def _jumped(hit: Hit) -> Iterable[Event]:
    words = hit.match[0].lower()
    direction = "backward" if "backward" in words else "forward" if "forward" in words else None
    yield with_attributes(hit.make(), direction=direction)


def _set_to(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(), set_to=hit.match[1].strip())


PATTERNS = (
    LinePattern(
        id="clock.stepped",
        event_name=Context.CLOCK_STEP,
        regex=_PROGRAM + r"System clock was stepped by " + _AMOUNT + r" seconds",
        samples=("Nov 30 01:02:03 node03 chronyd[812]: System clock was stepped by 1.033301 seconds",),
        lookalikes=("Nov 30 01:02:03 node03 chronyd[812]: Selected source 10.0.0.1",),
        source=_SOURCE,
        build=_stepped,
    ),
    LinePattern(
        id="clock.wrong_by",
        event_name=Context.CLOCK_STEP,
        regex=_PROGRAM + r"System clock wrong by " + _AMOUNT + r" seconds",
        samples=(
            "Nov 30 01:02:03 node03 chronyd[812]: System clock wrong by 1721.913772 seconds, adjustment started",
            "Nov 30 01:02:03 node03 chronyd[812]: System clock wrong by -0.523421 seconds",
        ),
        lookalikes=("Nov 30 01:02:03 node03 chronyd[812]: Can't synchronise: no selectable sources",),
        source=_SOURCE,
        build=_slewed,
    ),
    LinePattern(
        id="clock.ntpd_step",
        event_name=Context.CLOCK_STEP,
        regex=_PROGRAM + r"(?:time reset|time stepped by|step time server [^ \n]+ offset) " + _AMOUNT,
        samples=(
            "Nov 30 01:02:03 node03 ntpd[901]: time reset +0.523421 s",
            "Nov 30 01:02:03 node03 ntpd[901]: time stepped by 0.523421",
            "30 Nov 01:02:03 ntpdate[77]: step time server 10.0.0.1 offset +0.523421 sec",
        ),
        lookalikes=(
            "30 Nov 01:02:03 ntpdate[77]: adjust time server 10.0.0.1 offset -0.001234 sec",
            "Nov 30 01:02:03 node03 ntpd[901]: kernel reports TIME_ERROR: 0x41: Clock Unsynchronized",
        ),
        source=_SOURCE,
        build=_stepped,
    ),
    LinePattern(
        id="clock.jump",
        event_name=Context.CLOCK_STEP,
        regex=(
            _PROGRAM + r"(?:Forward time jump detected|Backward time jump detected|Time jumped backwards, rotating|"
            r"Time has been changed|Clock change detected\. Flushing caches)"
        ),
        samples=(
            "Nov 30 01:02:03 node03 chronyd[812]: Backward time jump detected!",
            "Nov 30 01:02:03 node03 systemd-journald[338]: Time jumped backwards, rotating.",
            "Nov 30 01:02:03 node03 systemd-resolved[400]: Clock change detected. Flushing caches.",
            "Nov 30 01:02:03 node03 systemd[1]: Time has been changed",
        ),
        lookalikes=("Nov 30 01:02:03 node03 systemd[1]: Reached target System Time Synchronized.",),
        source=_SOURCE,
        requires=_SYSTEM,
        build=_jumped,
    ),
    LinePattern(
        id="clock.timesyncd_initial",
        event_name=Context.CLOCK_STEP,
        regex=_PROGRAM + r"Initial clock synchronization to ([A-Z][a-z]{2} [0-9]{4}-[^\n]+)",
        samples=(
            "Nov 30 01:02:03 node03 systemd-timesyncd[500]: "
            "Initial clock synchronization to Sun 2025-11-30 01:02:03.123456 UTC.",
        ),
        lookalikes=("Nov 30 01:02:03 node03 systemd-timesyncd[500]: Synchronized to time server 10.0.0.1:123 (ntp).",),
        source=_SOURCE,
        build=_set_to,
    ),
)
DIALECT = Dialect(name="clock_lines", title="Clock synchronisation daemons", patterns=PATTERNS, source=_SOURCE)
