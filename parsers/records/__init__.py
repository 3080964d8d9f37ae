"""Multi-line records: one stitcher a kind, by the name that a `LinePattern.record` gives."""

from __future__ import annotations

from correlator.parsers.records import (
    amdgpu,
    desync,
    device_assert,
    faulthandler,
    gpu_query,
    kernel_blocks,
    launcher,
    native,
    traceback,
)
from correlator.parsers.records.window import Stitcher

STITCHERS: dict[str, Stitcher] = {
    stitcher.name: stitcher
    for stitcher in (
        traceback.STITCHER,
        traceback.EXCEPTION_TEXT,
        native.C10D_BLOCK,
        faulthandler.STITCHER,
        launcher.CHILD_FAILED,
        launcher.RENDEZVOUS_RESULT,
        launcher.MPI_BLOCK,
        launcher.SIGNAL_BLOCK,
        launcher.RAY_ACTOR,
        kernel_blocks.KERNEL_OOM,
        kernel_blocks.XID_BLOCK,
        device_assert.STITCHER,
        desync.STITCHER,
        amdgpu.STITCHER,
        gpu_query.STITCHER,
    )
}

__all__ = ["STITCHERS", "Stitcher"]
