"""What clock tools print when asked: chronyc, timedatectl, ntpq, and daemons that lost their source (formats.md H5).

An offset here was measured, not corrected: `offset_s` is positive where the local clock is behind.
"""

from __future__ import annotations

from collections.abc import Iterable

from correlator.core.event import Event
from correlator.core.vocabulary import Context, Severity
from correlator.parsers.base import Dialect, Hit, LinePattern
from correlator.parsers.dialects.support import with_attributes

_SOURCE = "formats.md H5"


def _tracking(hit: Hit) -> Iterable[Event]:
    """`slow of NTP time`: the local clock is behind."""
    seconds = float(hit.match["seconds"])
    behind = hit.match["direction"] == "slow"
    yield with_attributes(hit.make(attributes=()), offset_s=seconds if behind else -seconds)


def _peer(hit: Hit) -> Iterable[Event]:
    """The offset that `ntpq -p` prints is that of the peer against us, in ms."""
    event = hit.make(attributes=())
    yield with_attributes(event, time_source=hit.match["remote"], offset_s=float(hit.match["offset"]) / 1000.0)


def _unsynchronised(hit: Hit) -> Iterable[Event]:
    yield with_attributes(hit.make(attributes=()), synchronised=False)


def _synchronised(hit: Hit) -> Iterable[Event]:
    answer = hit.match["answer"] or hit.match["leap"]
    yield with_attributes(hit.make(attributes=()), synchronised=answer in ("yes", "Normal"))


PATTERNS = (
    LinePattern(
        id="clock.tracking",
        event_name=Context.MESSAGE,
        regex=r"System time[ \t]*: (?P<seconds>\d{1,9}\.\d{1,9}) seconds (?P<direction>slow|fast) of NTP time",
        samples=("System time     : 0.000012345 seconds slow of NTP time",),
        lookalikes=("System time     : unknown",),
        source=_SOURCE,
        build=_tracking,
    ),
    LinePattern(
        id="clock.synchronised",
        event_name=Context.MESSAGE,
        regex=r"(?:[ \t]*System clock synchronized: (?P<answer>yes|no)|Leap status[ \t]*: (?P<leap>Normal|Not synchronised))",
        samples=("System clock synchronized: no", "Leap status     : Not synchronised"),
        lookalikes=("System clock synchronized with the RTC",),
        source=_SOURCE,
        build=_synchronised,
    ),
    LinePattern(
        id="clock.time_zone",
        event_name=Context.MESSAGE,
        regex=r"[ \t]*Time zone: (?P<zone_name>[\w/+-]+) \((?P<zone>[A-Z0-9+-]{1,6}), (?P<utc_offset>[+-]\d{4})\)",
        samples=("                Time zone: Etc/UTC (UTC, +0000)",),
        lookalikes=("Time zone: unknown",),
        source=_SOURCE,
    ),
    LinePattern(
        id="clock.ntpq_peer",
        event_name=Context.MESSAGE,
        regex=(
            r"\*(?P<remote>[^ \n]+) +[^ \n]+ +\d+ [lumbsp-] +[^ \n]+ +\d+[dhm]? +\d+ +\d+\.\d+ +"
            r"(?P<offset>[+-]?\d+\.\d+) +\d+\.\d+"
        ),
        samples=("*10.0.0.1        .GPS.            1 u   12   64  377    0.123  -12.345   0.012",),
        lookalikes=("+10.0.0.2        .GPS.            1 u   12   64  377    0.123  -12.345   0.012",),
        source=_SOURCE,
        build=_peer,
    ),
    LinePattern(
        id="clock.unsynchronised",
        event_name=Context.MESSAGE,
        regex=r"(?:Can't synchronise: no (?:selectable|reachable) sources|kernel reports TIME_ERROR: 0x[0-9a-f]+: Clock Unsynchronized)",
        severity=Severity.WARN,
        samples=(
            "Nov 30 01:02:03 node03 chronyd[812]: Can't synchronise: no selectable sources",
            "Nov 30 01:02:03 node03 ntpd[901]: kernel reports TIME_ERROR: 0x41: Clock Unsynchronized",
        ),
        lookalikes=("Nov 30 01:02:03 node03 chronyd[812]: Selected source 10.0.0.1",),
        source=_SOURCE,
        build=_unsynchronised,
    ),
    LinePattern(
        id="clock.source_selected",
        event_name=Context.MESSAGE,
        regex=r"(?:Selected source|Synchronized to time server) (?P<time_source>[^ \n]+)",
        samples=(
            "Nov 30 01:02:03 node03 chronyd[812]: Selected source 10.0.0.1",
            "Nov 30 01:02:03 node03 systemd-timesyncd[500]: Synchronized to time server 10.0.0.1:123 (ntp).",
        ),
        lookalikes=("Selected sources are stale",),
        priority=20,
        source=_SOURCE,
    ),
    LinePattern(
        id="clock.adjusted",
        event_name=Context.MESSAGE,
        regex=r"(?:\d{1,2} [A-Z][a-z]{2} [0-9:]{8} )?(?:[A-Za-z][\w.-]*\[\d+\]: )?adjust time server (?P<time_source>[^ \n]+) "
        r"offset (?P<offset_s>[+-]?\d{1,9}\.\d{1,9}) sec",
        samples=("30 Nov 01:02:03 ntpdate[77]: adjust time server 10.0.0.1 offset -0.001234 sec",),
        lookalikes=("30 Nov 01:02:03 ntpdate[77]: step time server 10.0.0.1 offset +0.523421 sec",),
        source=_SOURCE,
    ),
)
DIALECT = Dialect(name="clock_reports", title="Clock tools", patterns=PATTERNS, source=_SOURCE)
