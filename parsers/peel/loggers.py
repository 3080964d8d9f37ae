"""Python logging, loguru, structlog, rich, NeMo, Composer, vLLM, SGLang and kin (formats.md F2, F4-F6, F8, I4, I5)."""

from __future__ import annotations

import re

from correlator.parsers.base import Layer
from correlator.parsers.peel.state import DIGITS, LETTERS, Peeling, Rule, number
from correlator.parsers.timestamps import CLOCK, COMPACT, CTIME, EPOCH, ISO, SHORT, without_year

_LEVEL = (
    r"(?:TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARN|WARNING|ERROR|CRITICAL|FATAL"
    r"|debug|info|notice|warn|warning|error|critical|fatal|Info|Warning|Error)"
)
_NAME = r"[A-Za-z_][\w.$/-]{0,200}"
_WHEN = rf"(?P<when>{ISO}|{SHORT})"
# Words before a colon that belong to the message, not to a logger.
_NO_LOGGER = re.compile(
    r"(?:[\w.]*\.)?(?:[A-Z]\w*|step|iter|iteration|epoch|loss|error|warning|rank|batch|eval|train|lr|time"
    r"|world_size|host|pid)$"
)
_METRIC_VALUE = re.compile(r"[-+]?\d|nan\b|inf\b|\{|\[?\d")
_PAIR = re.compile(r"[ \t]+([A-Za-z_][\w.]{0,60})=('[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|[^\s'\"]{1,200})[ \t]*$")
_PLACE = re.compile(r" {2,}([\w./-]{1,120}\.py:\d{1,6})[ \t]*$")
_MAX_PAIRS = 32
_PAIR_CHARACTERS = 400
_VOICED = frozenset({Layer.LOGGING, Layer.GLOG, Layer.VLLM, Layer.TORCH_PYTHON, Layer.JSON_LOG, Layer.DEEPSPEED})


def _voice(peeling: Peeling, match: re.Match[str], layer: Layer = Layer.LOGGING) -> str | None:
    """A logger's head: its time, level, name, source and rank, as far as the shape has them."""
    groups = match.groupdict()
    if groups.get("when") and not peeling.stamp(layer, groups["when"]):
        return None
    peeling.layers.append(layer)
    peeling.level(groups.get("level") or groups.get("plain"))
    peeling.logger = groups.get("name") or peeling.logger
    peeling.source_file = groups.get("source") or peeling.source_file
    peeling.process(groups.get("pid"))
    if groups.get("rank"):
        peeling.rank = number(groups["rank"])
    return match.string[match.end() :]


def _level_then_name(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`TIME LEVEL name: text`; a word that cannot be a logger's name stays in the message."""
    rest = _voice(peeling, match)
    if rest is None:
        return None
    named = _LOGGER_NAME.match(rest)
    if named is None or _NO_LOGGER.match(named["name"] or ""):
        return rest
    if not match["open"] and named["name"] and "." not in named["name"] and named["tail"] == ": ":
        return rest if _METRIC_VALUE.match(rest, named.end()) else _named(peeling, named, rest)  # `INFO tokens: 3`
    return _named(peeling, named, rest)


def _named(peeling: Peeling, named: re.Match[str], rest: str) -> str:
    peeling.logger = named["name"] or peeling.logger
    peeling.source_file = named["source"] or peeling.source_file
    return rest[named.end() :]


def _structlog(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`TIME [level    ] event    key=val rank=3`: the pairs at the end are facts, not words."""
    rest = _voice(peeling, match)
    if rest is None:
        return None
    for _ in range(_MAX_PAIRS):
        pair = _PAIR.search(rest, max(len(rest) - _PAIR_CHARACTERS, 0))
        if pair is None or not pair.start():
            break
        rest = rest[: pair.start()]
        if pair[1] in ("rank", "global_rank"):
            peeling.rank = number(pair[2]) if pair[2].isdecimal() else peeling.rank
        elif pair[1] in ("host", "hostname", "node"):
            peeling.host = pair[2].strip("'\"")
        elif pair[1] in ("pid", "process") and pair[2].isdecimal():
            peeling.process(pair[2])
    return rest.rstrip()


def _rich_more(peeling: Peeling, match: re.Match[str]) -> str | None:
    """Rich prints the time only where it changed, and blanks in its place."""
    return None if peeling.layers else _without_place(peeling, _voice(peeling, match))


def _without_place(peeling: Peeling, rest: str | None) -> str | None:
    """The message without the place that rich prints at the right margin."""
    if rest is None or (place := _PLACE.search(rest, max(len(rest) - _PAIR_CHARACTERS, 0))) is None:
        return rest
    peeling.source_file = place[1]
    return rest[: place.start()]


def _dashes(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`TIME - name - LEVEL - text`, and Hugging Face's `TIME - LEVEL - name -   text`."""
    rest = _voice(peeling, match)
    if rest is None or match["name"]:
        return rest
    named = _DASHED_NAME.match(rest)
    if named is None or (_NO_LOGGER.match(named[1]) and not named[2].startswith("   ")):
        return rest
    peeling.logger = named[1]
    return rest[named.end() :]


def _stamped_only(peeling: Peeling, match: re.Match[str]) -> str | None:
    """A bare time before the text. Not after another voice: there it is part of the message."""
    return None if peeling.spoken() else _voice(peeling, match)


def _bracketed(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`[TIME]`, `[TIME TP3]` or `[TIME][name][LEVEL] - `."""
    if peeling.spoken() and not match["level"]:
        return None
    rest = _voice(peeling, match)
    return _without_place(peeling, rest) if match["when"][2] == "/" else rest


def _inline_time(peeling: Peeling, match: re.Match[str]) -> str | None:
    """A line that states a time and stays as it is: Megatron's phases, the head of an nvidia-smi table (F1, H6)."""
    if peeling.stamps or not peeling.stamp(Layer.LOGGING, match["when"]):
        return None
    peeling.layers.append(Layer.LOGGING)
    return match.string


def _access(peeling: Peeling, match: re.Match[str]) -> str | None:
    """A web server's access log: the address is the client's, not the writer's."""
    return None if peeling.spoken() else _voice(peeling, match)


def _vllm(peeling: Peeling, match: re.Match[str]) -> str | None:
    stamp = without_year(int(match["month"]), int(match["day"]), match["clock"], peeling.context)
    if not peeling.add_stamp(Layer.VLLM, stamp):
        return None
    return _voice(peeling, match, Layer.VLLM)


def _rank_tag(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`[rank 3] `, `rank 3: ` or `(3) ` where a logger's head stands before it."""
    if not any(layer in _VOICED for layer in peeling.layers) or peeling.rank is not None:
        return None
    peeling.rank = number(match[1])
    peeling.layers.append(Layer.RANK)
    return match.string[match.end() :]


def _app_tag(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.logger = match[1]
    return match.string[match.end() :]


_LOGGER_NAME = re.compile(
    rf"(?:(?P<source>[\w./-]{{1,120}}\.(?:py|cc|cpp|go):\d{{1,6}})|(?P<name>{_NAME}))(?P<tail>: | -- | - | \| )"
)
_DASHED_NAME = re.compile(rf"({_NAME}) -( +)")
RULES: tuple[Rule, ...] = (
    Rule(
        "[",
        re.compile(
            rf"\[NeMo (?P<level>[IWEDC]) {_WHEN} (?P<source>[\w.-]{{1,80}}:\d{{1,6}})(?: rank:(?P<rank>\d{{1,6}}))?\] ?"
        ),
        _voice,
        second=LETTERS,
    ),
    Rule(
        DIGITS,
        re.compile(
            rf"{_WHEN}: rank(?P<rank>\d{{1,6}})\[(?P<pid>\d{{1,9}})\]\[[^\]\n]{{1,80}}\]: (?P<level>{_LEVEL}):"
            rf" (?:(?P<name>{_NAME}): )?"
        ),
        _voice,
    ),
    Rule(
        DIGITS,
        re.compile(rf"{_WHEN} \| (?P<level>[A-Z]{{4,8}}) *\| (?:(?P<name>{_NAME}):(?:[\w<>.]{{1,80}}:)?\d{{1,6}} - )?"),
        _voice,
    ),
    Rule(DIGITS, re.compile(rf"{_WHEN} \[(?P<level>[a-z]{{4,9}}) *\] (?=[^\n]*=)"), _structlog),
    Rule(DIGITS, re.compile(rf"{_WHEN} \[(?P<level>{_LEVEL}) +\] "), _voice),
    Rule(" ", re.compile(rf" {{12,30}}(?P<level>{_LEVEL}) {{1,6}}(?=\S)"), _rich_more),
    Rule(
        "[",
        re.compile(
            rf"\[(?P<when>{CLOCK})\]\[(?P<name>[A-Z]\w{{1,40}})[ \t]*\]\[(?P<level>{_LEVEL})[ \t]*\]"
            r"(?:\[tid:[^\]\n]{1,20}\])? ?"
        ),
        _voice,
        second=DIGITS,
    ),
    Rule(
        DIGITS,
        re.compile(
            r"(?P<ip>[\w.:-]{1,253}) \S{1,60} \S{1,60} \[(?P<when>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
        ),
        _access,
    ),
    Rule(
        DIGITS,
        re.compile(
            rf"{_WHEN} - (?:(?P<name>{_NAME}) - )?(?P<level>{_LEVEL}) - (?:(?P<source>[\w.]{{1,80}}:\d{{1,6}}) - )?"
        ),
        _dashes,
    ),
    Rule(DIGITS, re.compile(rf"{_WHEN}:?[ \t]+(?P<level>{_LEVEL}) +\[(?P<pid>\d{{1,9}}):\d{{1,9}}\] "), _voice),
    Rule(
        DIGITS,
        re.compile(
            rf"(?P<when>{ISO}|{COMPACT}|{SHORT}|{CLOCK}|{EPOCH}):?(?:[ \t]+|\|)(?P<open>\[?)(?P<level>{_LEVEL})\b *\]?(?:: +"
            rf"|[ \t]+-[ \t]+|[ \t]+|\|)"
        ),
        _level_then_name,
    ),
    Rule(
        "[",
        re.compile(rf"\[(?P<level>{_LEVEL})\|(?P<source>[\w./-]{{1,120}}\.py:\d{{1,6}})\] {_WHEN} >> ?"),
        _voice,
        second=LETTERS,
    ),
    Rule(
        "[",
        re.compile(r"\[(?P<when>[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d)\] \[(?P<level>[A-Z]{4,8})\] \[tid \d{1,9}\] "),
        _voice,
        second=LETTERS,
    ),
    Rule("[", re.compile(rf"\[(?P<level>{_LEVEL}) *\]\[? ?{_WHEN}\]? ?"), _voice, second=LETTERS),
    Rule(
        " [",
        re.compile(
            rf" ?\[(?P<when>{ISO}|{SHORT}|{CLOCK})(?: (?:ATTN_)?(?:DP|TP|PP|EP|CP)\d{{1,5}})*\](?:"
            rf" ?\[(?P<name>{_NAME})\](?= ?\[))?"
            rf"(?: ?\[(?P<level>{_LEVEL}) *\]| (?P<plain>{_LEVEL})\b)?(?: - | +|:"
            rf" )?(?:(?P<source>[\w./-]{{1,120}}\.py:\d{{1,6}}) - )?"
        ),
        _bracketed,
        second=DIGITS,
    ),
    Rule(
        "DIWECF",
        re.compile(
            rf"(?P<level>{_LEVEL}) (?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{{1,6}})?) "
            r"(?:\[?(?P<source>[\w./-]{1,120}:\d{1,6})\] )?"
        ),
        _vllm,
    ),
    Rule(
        "DIWECF", re.compile(rf"(?P<level>{_LEVEL})[: ] *{_WHEN} (?:(?P<source>[\w./-]{{1,120}}:\d{{1,6}}) )?"), _voice
    ),
    Rule("[", re.compile(rf"\[(?P<rank>\d{{1,6}})\] (?P<level>{_LEVEL}): "), _voice, second=DIGITS),
    Rule("[", re.compile(rf"\[([A-Za-z_][\w-]{{0,40}})\] (?={ISO} - )"), _app_tag, second=LETTERS + "_"),
    Rule("MTWFS", re.compile(rf"(?:Timestamp[ \t]+: )?(?P<when>{CTIME})[ \t]*$"), _inline_time),
    Rule("[", re.compile(rf"\[[a-z][^\]\n]{{5,80}}\] datetime: (?P<when>{ISO})"), _inline_time, second=LETTERS),
    Rule("[", re.compile(r"\[[Rr]ank[ =:]? ?(\d{1,6})(?:/\d{1,6})?\]:? ?"), _rank_tag, second="rR"),
    Rule("rR", re.compile(r"[Rr]ank[ =](\d{1,6})(?:/\d{1,6})?: "), _rank_tag),
    Rule("(", re.compile(r"\((\d{1,6})\) "), _rank_tag),
    Rule(DIGITS, re.compile(rf"(?P<when>{ISO}|{SHORT})(?:: | - | : | )"), _stamped_only),
)
