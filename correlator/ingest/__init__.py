"""From files to the event table: bytes are scanned once, lines that mean something become rows, all others are counted.

    found = ingest(run_files.files, pattern_table(), run_files.hints)
    found.events      # polars table, columns of core.schema
    found.reports     # one account for each file: every line is an event, folded, thinned or plain

This package is imported by the reading processes too, so polars is loaded only where the rows of all files come
together.
"""

from __future__ import annotations

from correlator.ingest.collect import Ingested, ingest

__all__ = ["Ingested", "ingest"]
