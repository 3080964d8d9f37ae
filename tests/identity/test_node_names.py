"""Node names: one spelling for each node."""

from __future__ import annotations

import pytest

from correlator.identity.names import HostNames, natural, short


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("node03.cluster.local", "node03"),
        ("node03", "node03"),
        ("10.0.0.5", "10.0.0.5"),
        ("[fe80::1]", "fe80::1"),
        ("localhost", None),
        ("127.0.0.1", None),
        ("::1", None),
        ("<none>", None),
        (" ", None),
        (None, None),
    ],
)
def test_short_names(raw: str | None, expected: str | None) -> None:
    """The first label of a name, an address as it is, and nothing for names that are everywhere."""
    assert short(raw) == expected


def test_aliases_lead_to_the_node() -> None:
    """A pod's domain name leads over the pod to the node."""
    names = HostNames(aliases=(("10.40.3.20", "job-worker-3"), ("job-worker-3", "node060")))
    assert names.node("job-worker-3.job.svc.cluster.local") == "node060"
    assert names.node("10.40.3.20") == "node060"


def test_natural_order() -> None:
    """Numbers sort as numbers, also very long ones."""
    names = ["node10", "node2", "node", "gpu-01", "node" + "9" * 5000]
    assert sorted(names, key=natural)[:4] == ["gpu-01", "node", "node2", "node10"]
