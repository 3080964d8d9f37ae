"""What the lines have to do with the events: which begin one, and which look like errors that no event covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from correlator.core.vocabulary import SEVERITY_NUMBER, Context, FileKind, Role, Severity

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

# Rust regexes: linear in the line.
_LOOKS_WRONG = (
    r"(?i:\b(?:error|errors|exception|fatal|panic|critical|traceback|segfault|segmentation fault|abort|aborted|aborting|"
    r"failed|failure|cannot|can't|could not|unable to|killed|core dumped|timed out|timeout|no space left|denied|refused|"
    r"unreachable|corrupt|corrupted|died|crashed|not responding|lost connection)\b)|[a-z](?:Error|Exception|Interrupt)\b"
)
_LABELS = (
    r"^(?:\d{4}-\d\d-\d\dT[0-9:.]{8,18}(?:Z|[+-]\d\d:\d\d) std(?:out|err) [FP] |\s{0,4}\d{1,6}: |\[\d{1,6},\d{1,6}\]<std\w+>:|"
    r"\[(?:default|rank)\d{1,6}\]:|\([\w.]{1,80} pid=\d{1,9}[^)]{0,80}\) )+"
)
_SOURCE = r'^(?:File ".*", line \d+|raise \w|except \w)'
"""Source text that a traceback shows: it names errors and is none."""
_ONE_WRITER = (FileKind.RANK_LOG, FileKind.NCCL_DEBUG_LOG, FileKind.KERNEL_LOG, FileKind.STACK_DUMP)


def as_frame(table: pa.Table) -> pl.DataFrame:
    """Rows of `AllLines.tables` as polars has them, labels as text."""
    import polars as pl

    frame = pl.from_arrow(table)
    if not isinstance(frame, pl.DataFrame):
        raise TypeError(type(frame))
    return frame


class Labels:
    """Gives each line the name, role and id of the event that begins on it; of several the one that weighs most."""

    def __init__(self, events: pl.DataFrame) -> None:
        import polars as pl

        weight = pl.col("role").replace_strict(
            {str(role): number for number, role in enumerate((Role.INITIATING, Role.COLLATERAL, Role.CONTEXT))},
            default=len(Role),
            return_dtype=pl.UInt8,
        )
        self._labels = (
            events.select(pl.col("log_file_path", "event_name", "role").cast(pl.String), "byte_offset", "event_id")
            .sort(weight, maintain_order=True)
            .unique(["log_file_path", "byte_offset"], keep="first", maintain_order=True)
        )

    def __call__(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The lines, `event_name` still `line` where no event begins."""
        import polars as pl

        labelled = lines.join(
            self._labels, on=["log_file_path", "byte_offset"], how="left", maintain_order="left", suffix="_of_event"
        )
        names = ("event_name", "role", "event_id")
        return labelled.with_columns(pl.coalesce(f"{name}_of_event", name).alias(name) for name in names).select(
            lines.columns
        )


class Unclassified:
    """Chooses the lines that look like errors and are no event. `events` is the run's event table."""

    def __init__(self, events: pl.DataFrame) -> None:
        import polars as pl

        known = events.select(
            pl.col("log_file_path", "event_name", "file_kind").cast(pl.String),
            "line_number",
            "byte_offset",
            "line_count",
            pl.concat_str("body", "exception_stacktrace", separator="\n", ignore_nulls=True).alias("texts"),
        ).filter(pl.col("event_name") != str(Context.MESSAGE))
        self._places = known.select("log_file_path", "byte_offset").unique()
        records = known.filter(pl.col("line_count") > 1)
        self._texts = (
            records.select("log_file_path", pl.col("texts").str.split("\n"))
            .explode("texts")
            .select("log_file_path", pl.col("texts").str.strip_chars().alias("text"))
            .unique()
        )
        self._ranges = (
            records.filter(pl.col("file_kind").is_in([str(kind) for kind in _ONE_WRITER]))
            .select("log_file_path", "line_number", (pl.col("line_number") + pl.col("line_count")).alias("until"))
            .sort("line_number")
        )

    def __call__(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The lines that look like errors and are neither events nor parts of one."""
        import polars as pl

        path = pl.col("log_file_path").cast(pl.String)
        severe = (pl.col("severity_number") >= SEVERITY_NUMBER[Severity.ERROR]).fill_null(value=False)
        text = pl.col("body").str.replace(_LABELS, "").str.strip_chars()
        looking = lines.filter(severe | pl.col("body").str.contains(_LOOKS_WRONG)).with_columns(
            path.alias("log_file_path"), text.alias("text"), pl.int_range(pl.len()).alias("order")
        )
        looking = looking.filter(~pl.col("text").str.contains(_SOURCE))
        looking = looking.join(self._places, on=["log_file_path", "byte_offset"], how="anti")
        looking = looking.join(self._texts, on=["log_file_path", "text"], how="anti")
        looking = looking.sort("line_number").join_asof(
            self._ranges, on="line_number", by="log_file_path", strategy="backward", check_sortedness=False
        )
        inside = (pl.col("line_number") < pl.col("until")).fill_null(value=False)
        return looking.filter(~inside).sort("order").select(lines.columns)
