"""People and places: one new name for each, everywhere, and nothing else changed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.core.masking import Masker

HOSTS = ("node2", "node10", "gpu-01", "gpu-02", "gpu-03", "nid001020", "ip-10-1-5-77", "h100-04-045", "localhost", "7")
MASK = Masker(HOSTS, places=True)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("rank 3 on node2 and node10", "rank 3 on host7 and host8"),
        ("kernel log of gpu-[01-03] and ip-10-1-5-77.", "kernel log of host[1-3] and host5."),
        ("logs of gpu-[01,03].", "logs of host[1,3]."),
        ("of gpu-[01,09]", "of gpu-09,host1"),
        ("kernel_nid001020.log:12", "kernel_host6.log:12"),
        ("nccl/nccl.nid001020.1214246.log", "nccl/nccl.host6.1214246.log"),
        ("node2.train.svc.cluster.local:29500", "host7:29500"),
        ("node20 node2x xnode2", "node20 node2x xnode2"),
        ("ssh zoe@node2 ls", "ssh user1@host7 ls"),
        ("/home/zoe/run/rank_3.log and /Users/max/x", "/home/user1/run/rank_3.log and /Users/user2/x"),
        ("/gpfs/home/zoe", "/gpfs/home/user1"),
        ("connect to [::ffff:10.77.3.9]:29500 from 10.77.3.9", "connect to [::ffff:address1]:29500 from address1"),
        ("127.0.0.1 localhost 7 NCCL 2.21.5 1.2.3.999", "127.0.0.1 localhost 7 NCCL 2.21.5 1.2.3.999"),
        ("password: hunter22 on h100-04-045", "password: *** on host4"),
    ],
)
def test_people_and_places_get_new_names(text: str, masked: str) -> None:
    assert Masker(HOSTS, places=True)(text) == masked


def test_a_name_is_the_same_in_all_of_a_run() -> None:
    """Also where it comes in another order."""
    first = Masker(HOSTS, places=True)
    assert first("/home/a /home/b") == "/home/user1 /home/user2"
    assert first("/home/b /home/a") == "/home/user2 /home/user1"
    assert first("gpu-02") == Masker(reversed(HOSTS), places=True)("gpu-02")


def test_without_places_only_credentials_go() -> None:
    assert Masker()("HF_TOKEN=abcdefgh123 /home/zoe on node2 10.0.0.1") == "HF_TOKEN=*** /home/zoe on node2 10.0.0.1"


@given(st.text(max_size=200))
def test_any_text_is_masked_once_and_for_all(text: str) -> None:
    """No text raises, and nothing is left for a second time."""
    masked = MASK(text)
    assert MASK(masked) == masked


@pytest.mark.parametrize("piece", ["node2[", "gpu-[0,", "/home/", "10.", "a@", "node2.a.", "node2-"])
def test_no_line_takes_long(piece: str) -> None:
    begun = time.process_time()
    MASK(piece * 40_000)
    assert time.process_time() - begun < 2
