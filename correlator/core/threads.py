"""How many threads the libraries below may start."""

from __future__ import annotations

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Variables that numpy's linear algebra reads when it is imported. Nothing here computes with it, and yet it reserves
memory for as many threads as there are processors, and ends the process where `ulimit -v` does not allow that."""
