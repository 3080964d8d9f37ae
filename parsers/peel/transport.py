"""What container runtimes and kubectl put around a line (formats.md E2)."""

from __future__ import annotations

import re

from correlator.parsers.base import Layer
from correlator.parsers.peel.state import DIGITS, Peeling, Rule

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"


def _cri(peeling: Peeling, match: re.Match[str]) -> str | None:
    if not peeling.stamp(Layer.CRI, match[1]):
        return None
    peeling.layers.append(Layer.CRI)
    peeling.stream = match[2]
    peeling.partial = match[3] == "P"
    return match.string[match.end() :]


def _pod(peeling: Peeling, match: re.Match[str]) -> str | None:
    peeling.layers.append(Layer.KUBECTL)
    peeling.pod = match[1]
    return match.string[match.end() :]


def _stern(peeling: Peeling, match: re.Match[str]) -> str | None:
    """`job-worker-3 pytorch text`: two words that can only be a pod and its container; outermost, as stern prints."""
    if peeling.layers:
        return None
    return _pod(peeling, match)


def _kubectl(peeling: Peeling, match: re.Match[str]) -> str | None:
    """A bare runtime stamp; only as the outermost thing, so that a program's own ISO stamp is not taken for it."""
    if any(layer is not Layer.KUBECTL for layer in peeling.layers) or peeling.stamps:
        return None
    if not peeling.stamp(Layer.KUBECTL, match[1]):
        return None
    if Layer.KUBECTL not in peeling.layers:
        peeling.layers.append(Layer.KUBECTL)
    return match.string[match.end() :]


RULES: tuple[Rule, ...] = (
    Rule(DIGITS, re.compile(rf"({_RFC3339}) (stdout|stderr) ([FP])(?::[A-Z:]+)?(?: |$)"), _cri),
    Rule(
        _LOWER,
        re.compile(
            r"(?=[a-z])([a-z0-9](?:[a-z0-9-]{0,200}-)(?:master|worker|launcher|server|head|node|replica|workers?-\d+)"
            r"-\d{1,6}(?:-[a-z0-9]{5})?) (?:pytorch|tensorflow|jax|mpi|trainer|training|train|main|worker|master|launcher"
            r"|container|node|app|ray-head|ray-worker)(?: (?=\S)|$)"
        ),
        _stern,
    ),
    Rule("[", re.compile(r"\[pod/([^/\]\n]{1,253})(?:/[^\]\n]{1,253})?\] ?"), _pod, second="p"),
    Rule(
        DIGITS,
        # 9 digits by the runtime, trailing zeros cut by Go; not `[info ]` (structlog), not `host tag:` (syslog).
        re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(?:\d{7,9}|\d{4,5})(?:Z|[+-]\d\d:\d\d))(?: |$)"),
        _kubectl,
    ),
    Rule(
        DIGITS,
        re.compile(
            rf"({_RFC3339}) (?=\[rank\d|\[default\d|\[[FEWIV]\d{{3,4}} |[\w.-]+:\d+:\d+ \[|Traceback \(|terminate"
            rf" called"
            r"|\d{4}-\d\d-\d\d|\[\d{4}-\d\d-\d\d|[FEWIC]\d{4} \d\d:)"
        ),
        _kubectl,
    ),
)
