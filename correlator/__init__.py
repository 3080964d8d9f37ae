"""Name the rank that started a distributed run's failure, from the logs alone.

    import correlator
    run = correlator.open_run("run_dir")
    print(run.diagnosis.verdict.summary)

Everything heavy (polars, networkx) is imported on first use, so that `correlator --help` stays instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Diagnosis", "Run", "__version__", "diagnose", "open_run", "read_flight_recorder"]

if TYPE_CHECKING:
    from correlator.core.model import Diagnosis
    from correlator.flight_recorder import read_flight_recorder
    from correlator.pipeline import Run, diagnose, open_run


def __getattr__(name: str) -> object:
    """Import the public names on first use (PEP 562)."""
    if name in {"Run", "diagnose", "open_run"}:
        from correlator import pipeline

        return getattr(pipeline, name)
    if name == "Diagnosis":
        from correlator.core.model import Diagnosis

        return Diagnosis
    if name == "read_flight_recorder":
        from correlator.flight_recorder import read_flight_recorder

        return read_flight_recorder
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
