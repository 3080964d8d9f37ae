"""Mask credentials and e-mail addresses in text that people share: one ordered list, used by every report."""

from __future__ import annotations

import re
from dataclasses import dataclass

MASK = "***"


@dataclass(frozen=True, slots=True)
class SecretShape:
    """One way in which credentials are printed. The groups `keep` and `end` stay, what is between them is masked."""

    name: str
    literals: tuple[str, ...]
    """Lower-case texts of which one must occur, so that ordinary lines cost next to nothing."""
    regex: re.Pattern[str]


def _shape(name: str, literals: str, regex: str) -> SecretShape:
    return SecretShape(name, tuple(literals.split()), re.compile(regex))


SECRET_SHAPES: tuple[SecretShape, ...] = (
    _shape("private key block", "-----begin", r"(?P<keep>-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----).*"),
    _shape("userinfo in a URL", "://", r"(?P<keep>[A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/@]{1,300}(?P<end>@)"),
    _shape(
        "account and password",
        "@",
        r"(?P<keep>(?<![\w.%+-])[A-Za-z_][\w.-]{0,31}:)(?!\d{1,100}@)[^\s/@:]{3,100}(?P<end>@[A-Za-z][\w.-]{0,200})",
    ),
    _shape(
        "e-mail address",
        "@",
        r"(?P<keep>)(?<![\w.%+-])[A-Za-z0-9][\w.%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}"
        r"(?![\w-])",
    ),
    _shape(
        "authorization header",
        "authorization",
        r"(?i)(?P<keep>\bauthorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:bearer |basic |token )?)[^\s\"',]{6,}",
    ),
    _shape("bearer token", "bearer", r"(?i)(?P<keep>\bbearer )[A-Za-z0-9._~+/=-]{16,}"),
    _shape("JSON web token", "eyj", r"(?P<keep>)\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _shape("cloud access key", "akia asia", r"(?P<keep>)\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    _shape("forge token", "gh github_pat_ glpat-", r"(?P<keep>\b(?:gh[pousr]_|github_pat_|glpat-))[\w-]{16,}"),
    _shape("model hub token", "hf_", r"(?P<keep>\bhf_)[A-Za-z0-9]{16,}"),
    _shape("API key", "sk- aiza xox", r"(?P<keep>\b(?:sk-|AIza|xox[abprs]-))[\w-]{16,}"),
    _shape(
        "named credential",
        # `token` alone is a word of every training log (`tokens: 4096`), so only credentials named so are masked.
        "passw secret token apikey api_key api-key access_key accesskey access-key private_key private-key credential",
        r"(?i)(?P<keep>(?:passw(?:or)?d|secret|(?:api|access|private)[_-]?key|credentials?|(?:\b|_|-)token)(?:_id)?"
        r"[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?)(?![0-9.,]{1,30}(?:\s|$))(?!\*\*\*)[^\s\"',;&}\])]{6,}",
    ),
    _shape(
        "password of a database client",
        "mysql mariadb",
        r"(?i)(?P<keep>\b(?:mysql|mysqldump|mariadb)\b[^\n]{0,120}? -p)[^\s\"']{4,}",
    ),
    _shape(
        "address that is itself the credential",
        "hooks.slack.com",
        r"(?P<keep>hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/-]{6,}",
    ),
    _shape(
        "signature in a URL",
        "sig= signature=",
        r"(?i)(?P<keep>[?&](?:sig|signature|x-amz-signature|x-goog-signature)=)[\w%+/=.-]{8,}",
    ),
    _shape(
        "credential flag",
        "--",
        r"(?i)(?P<keep>--[a-z-]{0,30}(?:password|secret|api-key|token)[ \t]{1,3}[\"']?)(?!-)(?!\*\*\*)[^\s\"']{6,}",
    ),
)
"""Tried in this order; a text that one has masked is seen masked by the next."""
LITERALS = tuple(dict.fromkeys(literal for shape in SECRET_SHAPES for literal in shape.literals))
"""A text without any of these, in whatever case, has nothing to mask."""


def mask_secrets(text: str) -> str:
    """The text with every credential of a known shape replaced by `***`; what names it is kept."""
    lowered = text.lower()
    for shape in SECRET_SHAPES:
        if any(literal in lowered for literal in shape.literals):
            text = shape.regex.sub(_masked, text)
    return text


def _masked(match: re.Match[str]) -> str:
    return match["keep"] + MASK + (match.groupdict().get("end") or "")
