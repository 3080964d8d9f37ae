"""A run with all texts masked: what the timeline, notebooks and `--mask` show.

The diagnosis is masked and not made again, so masking changes no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from correlator.core.masking import Change, Masker
from correlator.core.schema import COLUMNS, Kind
from correlator.core.secrets import LITERALS

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from correlator.core.model import Topology

_OUR_OWN_WORDS = frozenset(
    "time_source time_zone severity_text event_name role signature collective_op log_iostream dialect file_kind".split()
)
"""Columns whose values are ours or the field's, never a run's."""
_TEXT_COLUMNS = tuple(
    column.name for column in COLUMNS if column.kind in {Kind.TEXT, Kind.LABEL} and column.name not in _OUR_OWN_WORDS
)


def masker_of(events: pl.DataFrame, topology: Topology, *, places: bool) -> Masker:
    """What masks the texts of a run. With `places` also home directories, hosts and addresses; else credentials."""
    if not places:
        return Masker()
    hosts = {*topology.nodes, *topology.nodes_with_logs, *([topology.store_node] if topology.store_node else [])}
    hosts |= {str(host) for host in events["host_name"].drop_nulls().unique()}
    return Masker(hosts, places=True)


def mask_frame(rows: pl.DataFrame, change: Change) -> pl.DataFrame:
    """Rows of the event table with every text changed; equal texts are changed once, dtypes stay."""
    import polars as pl

    columns = [_changed(rows[name], change) for name in _TEXT_COLUMNS if name in rows.columns]
    if "attributes" in rows.columns:
        columns.append(_changed_attributes(rows["attributes"], change))
    return rows.with_columns(column for column in columns if isinstance(column, pl.Series))


def mask_tables(tables: Iterable[pa.Table], change: Change) -> Iterator[pa.Table]:
    """The same for rows that come in blocks (all lines of a run)."""
    import polars as pl

    from correlator.timeline import to_arrow

    for table in tables:
        rows = pl.from_arrow(table)
        if isinstance(rows, pl.DataFrame):
            yield to_arrow(mask_frame(rows, change))


def _new_texts(texts: pl.Series, change: Change) -> dict[str, str]:
    """Texts that masking changes, with what they become."""
    import polars as pl

    known = texts.cast(pl.String).drop_nulls().unique()
    if isinstance(change, Masker) and not change.places:
        known = known.filter(known.str.contains_any(list(LITERALS), ascii_case_insensitive=True))
    changed = ((text, change(text)) for text in known)
    return {old: new for old, new in changed if old != new}


def _changed(texts: pl.Series, change: Change) -> pl.Series | None:
    """None where nothing in the column is masked."""
    import polars as pl

    new = _new_texts(texts, change)
    if not new:
        return None
    return texts.cast(pl.String).replace(list(new), list(new.values())).cast(texts.dtype).alias(texts.name)


def _changed_attributes(attributes: pl.Series, change: Change) -> pl.Series | None:
    import polars as pl

    pairs = attributes.explode().drop_nulls()
    new = {} if pairs.is_empty() else _new_texts(pairs.struct.field("value"), change)
    if not new:
        return None
    value = pl.element().struct.field("value").replace(list(new), list(new.values()))
    changed = pl.col("attributes").list.eval(pl.struct(pl.element().struct.field("key"), value.alias("value")))
    return attributes.to_frame("attributes").select(changed).to_series()
