"""Laws of the small readers: host lists, ids, checkpoint names, losses, times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.parsers.dialects.support import (
    checkpoint_name,
    expand_hosts,
    expand_ids,
    named_step,
    printed_loss,
    wall_clock_ns,
)


def test_expand_ids_reads_single_ids_and_ranges() -> None:
    """Slurm's id list, in order."""
    assert expand_ids("8-10,12,14-15") == (8, 9, 10, 12, 14, 15)
    assert expand_ids("7") == (7,)
    assert expand_ids("9-3,x,") == ()


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node03", ("node03",)),
        ("node[03-04,07]", ("node03", "node04", "node07")),
        ("node[09-11],gpu1", ("node09", "node10", "node11", "gpu1")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        ("ip-10-1-5-68", ("ip-10-1-5-68",)),
    ],
)
def test_expand_hosts(text: str, hosts: tuple[str, ...]) -> None:
    """Zero padding stays; brackets multiply."""
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize("text", ["node[0-999999999]", "n[0-99999][0-99999][0-99999]", "0-4294967295", "[[[[[1-5"])
def test_hostile_ranges_stay_small(text: str) -> None:
    """No printed range may fill the memory."""
    assert len(expand_hosts(text)) <= 65_536
    assert len(expand_ids(text)) <= 65_536


@given(st.lists(st.integers(min_value=0, max_value=5_000), min_size=1, max_size=50, unique=True))
def test_expanding_a_compressed_list_gives_it_back(ids: list[int]) -> None:
    """Compression and expansion are inverse."""
    ids = sorted(ids)
    parts: list[list[int]] = []
    for number in ids:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    text = ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
    assert list(expand_ids(text)) == ids


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    """Log text is untrusted."""
    expand_hosts(text)
    expand_ids(text)
    checkpoint_name(text)
    named_step(text)
    printed_loss(text)
    wall_clock_ns(text)


@pytest.mark.parametrize(
    ("path", "name", "step"),
    [
        ("/ckpt/run7/step_000010", "step_000010", 10),
        ("./outputs/checkpoint/step-1000.", "step-1000", 1000),
        ("output/checkpoint-225", "checkpoint-225", 225),
        ("'/ckpt/epoch=3-step=400.ckpt'", "epoch=3-step=400.ckpt", 400),
        ("./output/ds/checkpoint-1200/global_step1200/mp_rank_00_model_states.pt...", "checkpoint-1200", 1200),
        ("/ckpt/global_step1200/mp_rank_00_model_states.pt", "global_step1200", 1200),
        ("/ckpt/run7/step-1040/__17_0.distcp", "step-1040", 1040),
        ("/ckpt/ep0-ba1200/", "ep0-ba1200", 1200),
        ("/models/base-8b", "base-8b", None),
    ],
)
def test_checkpoint_names(path: str, name: str, step: int | None) -> None:
    """The innermost component with a step is the checkpoint."""
    assert checkpoint_name(path) == name
    assert named_step(name) == step


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        (" | lm loss: 2.504220E+00 | loss scale: 1.0 |", 2.50422),
        (" loss 1.10 lr 1.0e-03", 1.10),
        ("{'loss': '2.5', 'epoch': '0.1'}", 2.5),
        (", reduced_train_loss=2.590, global_step=119.0]", 2.59),
        ("> G_loss: 4.300e-02 ", 0.043),
        (" | loss scale: 65536.0 | grad norm: 0.231 |", None),
        (" val_loss 2.2616", None),
    ],
)
def test_printed_loss(text: str, loss: float | None) -> None:
    """The training loss, never the loss scale or a validation loss."""
    found = printed_loss(text)
    assert found == pytest.approx(loss) if loss is not None else found is None


def test_a_nan_loss_is_kept() -> None:
    """NaN is a fact, not a missing value."""
    assert math.isnan(printed_loss("{'loss': nan, 'grad_norm': nan}") or 0.0)
    assert math.isnan(printed_loss("| lm loss: NAN |") or 0.0)


def test_wall_clock_is_read_as_utc_where_no_zone_is_printed() -> None:
    """Slurm prints local time without a zone."""
    assert wall_clock_ns("2025-11-30T01:02:03") == 1_764_464_523_000_000_000
    assert wall_clock_ns("2025-11-30T01:02:03.000001+01:00") == 1_764_460_923_000_001_000
    assert wall_clock_ns("yesterday") is None
