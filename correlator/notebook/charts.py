"""altair charts of a run. Each returns a chart and shows nothing; rows are aggregated first, so that any run fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from correlator.core.errors import CorrelatorError
from correlator.core.ranges import fold_numbers
from correlator.core.secrets import mask_secrets
from correlator.core.vocabulary import CollateralKind, Role
from correlator.notebook.frames import clock_table, episodes, progress
from correlator.reports.cleaning import visible

try:
    import altair as alt
except ImportError as error:
    raise CorrelatorError("charts need altair", hint="pip install 'rank-correlator[notebook]'") from error

if TYPE_CHECKING:
    from correlator.notebook.views import Shown

MOST_LANES = 128
"""More ranks than this are drawn as nodes."""
MOST_MARKS = 4_000
"""altair refuses more than 5,000 rows."""
BEFORE_S = 60.0
"""Seconds before the first mark that the lanes show."""
DENSITY_LANES, DENSITY_BINS = 64, 70
STEPS = 300
SLOW_RANKS = 4

_BINS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_MINUTE_S = 60
_WIDTH = 720
_LONGEST = 240
_NO_TAGS = {
    ord("<"): "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
    ord(">"): "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
}
_STARTED, _FAULT, _MEDIAN = "started it", "other fault", "median"
_RED, _GREY = "#c0392b", "#7f8c8d"
_COLORS: dict[str, str] = {
    _STARTED: _RED,
    _FAULT: "#e59866",
    CollateralKind.COLLECTIVE_TIMEOUT: "#2e86c1",
    CollateralKind.HEARTBEAT_EXIT: "#85c1e9",
    CollateralKind.REMOTE_PEER_LOST: "#7d3c98",
    CollateralKind.STORE_LOST: "#bb8fce",
    CollateralKind.TERMINATED_BY_LAUNCHER: "#707b7c",
    CollateralKind.SCHEDULER_CANCEL: "#aab7b8",
    CollateralKind.SECONDARY_ABORT: "#b7950b",
    CollateralKind.CONTEXT_POISONED: "#f4d03f",
    CollateralKind.LAUNCHER_REPORT: "#b2babb",
    CollateralKind.ACTOR_DIED: "#1abc9c",
    CollateralKind.SILENT_EXIT: "#34495e",
}


def timeline_chart(run: Shown) -> alt.LayerChart:
    """Swim lanes of the failure: one mark an episode, the initiating one with its uncertainty; drag and zoom in time."""
    marks = episodes(run).drop_nulls("time")
    by_node = marks["rank"].n_unique() > MOST_LANES
    lane = _lane(by_node=by_node)
    kind = pl.when("initiator").then(pl.lit(_STARTED)).when(pl.col("role") == str(Role.INITIATING)).then(pl.lit(_FAULT))
    marks = marks.with_columns(lane, kind.otherwise(pl.col("code")).alias("kind"))
    if by_node:
        marks = _folded(marks)
    marks = _readable(_spread(marks, MOST_MARKS).sort("rank", "node", nulls_last=True))
    lanes = marks["lane"].unique(maintain_order=True).to_list()
    y = alt.Y("lane:N", sort=lanes, title="node" if by_node else "rank, node")
    x = alt.X("time:T", title=None, axis=_clock_axis(), scale=_window(marks["time"]))
    names = [name for name in _COLORS if name in set(marks["kind"])]
    color = alt.Color("kind:N", title=None, scale=alt.Scale(domain=names, range=[_COLORS[name] for name in names]))
    tips = ["code", "rank", "node", _time_tip(), "uncertainty_ms", "step", "lines", "file", "line", "text"]
    started = marks.filter("initiator").with_columns(_moved(-1).alias("low"), _moved(1).alias("high"))
    base = alt.Chart(_plain(marks))
    points = base.mark_point(filled=True, size=70, clip=True).encode(x, y, color, tooltip=tips)
    onset = alt.Chart(_plain(started))
    margin = onset.mark_rule(color=_RED, strokeWidth=3, opacity=0.4, clip=True).encode(
        x=alt.X("low:T"), x2="high:T", y=y
    )
    line = onset.mark_rule(color=_RED, strokeDash=[4, 3], clip=True).encode(x=x)
    height = max(60, min(11 * len(lanes), 1100))
    chart = _layered(line, margin, points).properties(title="What befell whom", width=_WIDTH, height=height)
    return chart.interactive(bind_y=False)


def event_density_chart(run: Shown) -> alt.Chart:
    """Events of each rank in each minute; ranks share a lane, and minutes a cell, where there are too many."""
    rows = run.events.select(pl.col("time_aligned").alias("time"), "rank").drop_nulls()
    span_s = _seconds(rows["time"])
    bin_s = next(
        (s for s in _BINS_S if span_s / s < DENSITY_BINS and (s >= _MINUTE_S or span_s < 10 * _MINUTE_S)), _BINS_S[-1]
    )
    ranks = rows["rank"].unique().sort()
    size = max(1, -(-len(ranks) // DENSITY_LANES))
    groups = [ranks[start : start + size].to_list() for start in range(0, len(ranks), size)]
    names = [fold_numbers(group) for group in groups]
    lanes = pl.DataFrame(
        {"rank": groups, "lane": names}, schema={"rank": pl.List(pl.Int32), "lane": pl.String}
    ).explode("rank")
    cells = (
        rows.join(lanes, on="rank", how="inner")
        .group_by(pl.col("time").dt.truncate(f"{bin_s}s"), "lane")
        .agg(pl.len().alias("events"))
        .with_columns((pl.col("time") + pl.duration(seconds=bin_s)).alias("until"))
        .sort("time", "lane")
    )
    utc = alt.Scale(type="utc")
    chart: alt.Chart = (
        alt.Chart(_plain(cells))
        .mark_rect()
        .encode(
            x=alt.X("time:T", title=None, axis=_clock_axis(), scale=utc),
            x2="until:T",
            y=alt.Y("lane:N", sort=names, title="rank"),
            color=alt.Color(
                "events:Q", scale=alt.Scale(type="log", scheme="blues"), title=f"events in {_words(bin_s)}"
            ),
            tooltip=["lane", _time_tip(), "events"],
        )
        .properties(title="Events by rank and time", width=_WIDTH, height=max(60, 11 * len(groups)))
    )
    return chart


def step_time_chart(run: Shown) -> alt.LayerChart:
    """Seconds a step: the median of all ranks, those that started the failure, and those that are slowest on average."""
    writer = (
        pl.when(pl.col("rank").is_not_null()).then(pl.format("rank {}", "rank")).otherwise(pl.coalesce("node", "file"))
    )
    steps = _readable(progress(run).drop_nulls("step_time_s").with_columns(writer.alias("who")))
    median = steps.group_by("step").agg(pl.col("step_time_s").median().alias("median_s")).sort("step")
    kept = median.gather_every(max(1, -(-median.height // STEPS)))
    steps = steps.join(kept, on="step", how="inner")
    accused = [f"rank {i.rank}" for i in run.diagnosis.verdict.initiators if i.rank is not None][:SLOW_RANKS]
    excess = (pl.col("step_time_s") / pl.col("median_s")).mean().alias("excess")
    slow = steps.group_by("who").agg(excess).sort("excess", "who", descending=[True, False])["who"].to_list()
    shown = list(dict.fromkeys([*(who for who in accused if who in slow), *slow[:SLOW_RANKS]]))
    lines = steps.filter(pl.col("who").is_in(pl.Series(shown, dtype=pl.String).implode())).select(
        "step", "step_time_s", "who"
    )
    middle = kept.select("step", pl.col("median_s").alias("step_time_s"), pl.lit(_MEDIAN).alias("who"))
    names = [_MEDIAN, *shown]
    colors = [_GREY, *(_RED if who in accused else color for who, color in zip(shown, _CYCLE * 2, strict=False))]
    color = alt.Color("who:N", title=None, scale=alt.Scale(domain=names, range=colors))
    x = alt.X("step:Q", title="step", scale=alt.Scale(zero=False))
    y = alt.Y("step_time_s:Q", title="s a step")
    tips = ["who", "step", alt.Tooltip("step_time_s:Q", format=".3f")]
    several = alt.Chart(_plain(lines)).mark_line(point=True, opacity=0.8).encode(x, y, color, tooltip=tips)
    one = alt.Chart(_plain(middle)).mark_line(strokeWidth=3).encode(x, y, color, tooltip=tips)
    return _layered(one, several).properties(title="Step time", width=_WIDTH, height=240)


def clock_chart(run: Shown) -> alt.LayerChart:
    """Offsets of the clocks that could be estimated, with the intervals in which they lie."""
    table = _readable(clock_table(run).drop_nulls(["offset_ms", "low_ms", "high_ms"]))
    seconds = table.with_columns((pl.col(f"{side}_ms") / 1000).alias(f"{side}_s") for side in ("offset", "low", "high"))
    y = alt.Y("node:N", sort=table["node"].to_list(), title=None)
    tips = ["node", alt.Tooltip("offset_s:Q", format=".3f"), "low_ms", "high_ms", "evidence", "status", "timezone"]
    base = alt.Chart(seconds)
    rule = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low_s:Q", title="s ahead of the reference clock"), x2="high_s:Q", y=y
    )
    point = base.mark_point(filled=True, size=60).encode(x="offset_s:Q", y=y, tooltip=tips)
    zero = alt.Chart(pl.DataFrame({"offset_s": [0.0]})).mark_rule(color=_GREY, strokeDash=[4, 3]).encode(x="offset_s:Q")
    height = max(40, min(16 * table.height, 900))
    return _layered(zero, rule, point).properties(title="Clocks of the nodes", width=_WIDTH, height=height)


_CYCLE = ["#2e86c1", "#7d3c98", "#b7950b", "#1abc9c"]


def _lane(*, by_node: bool) -> pl.Expr:
    node = pl.col("node").fill_null("?")
    if by_node:
        return node.alias("lane")
    rank = pl.col("rank").cast(pl.String)
    return (
        pl.when(pl.col("rank").is_null()).then(node).otherwise(pl.concat_str(rank, node, separator=", ")).alias("lane")
    )


def _folded(marks: pl.DataFrame) -> pl.DataFrame:
    """One mark for all episodes of a kind on a node in the same second; `lines` counts those of all of them."""
    return (
        marks.group_by(
            "lane", "kind", "initiator", pl.col("time").dt.truncate("1s").alias("second"), maintain_order=True
        )
        .agg(pl.col("lines").sum(), pl.exclude("lane", "kind", "initiator", "lines").first())
        .drop("second")
    )


def _spread(marks: pl.DataFrame, most: int) -> pl.DataFrame:
    """At most so many rows, the initiating ones among them, the rest evenly."""
    if marks.height <= most:
        return marks
    others = marks.filter(~pl.col("initiator")).gather_every(-(-marks.height // most))
    return pl.concat([marks.filter("initiator").head(most // 4), others])


def _window(times: pl.Series) -> alt.Scale:
    """From a little before the first mark to the last one."""
    if not len(times):
        return alt.Scale(type="utc")
    numbers = times.dt.epoch("ms")
    first, last = int(numbers.min() or 0), int(numbers.max() or 0)  # type: ignore[arg-type]
    before = max(int(BEFORE_S * 1000), (last - first) // 20)
    return alt.Scale(type="utc", domain=[first - before, last + before // 4], nice=False)


def _moved(sign: int) -> pl.Expr:
    width = pl.duration(microseconds=(pl.col("uncertainty_ms").fill_null(0.0) * 1000 * sign).cast(pl.Int64))
    return pl.col("time") + width


def _time_tip() -> alt.Tooltip:
    return alt.Tooltip("time:T", format="%Y-%m-%d %H:%M:%S.%L")


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Times in milliseconds, as charts have them."""
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    return frame.with_columns(pl.col(times).cast(pl.Datetime("ms", "UTC"))) if times else frame


def _readable(frame: pl.DataFrame) -> pl.DataFrame:
    """Log text that a chart may show: masked, one line, of bounded length, and no HTML: charts are put into pages."""
    return frame.with_columns(
        pl.Series(name, [None if text is None else _short(text) for text in frame[name]], dtype=pl.String)
        for name, dtype in frame.schema.items()
        if dtype == pl.String
    )


def _short(text: str) -> str:
    shown = visible(mask_secrets(text[:2000])).translate(_NO_TAGS)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _seconds(times: pl.Series) -> float:
    if not len(times):
        return 0.0
    numbers = times.dt.epoch("ms")
    return (int(numbers.max() or 0) - int(numbers.min() or 0)) / 1000  # type: ignore[arg-type]


def _words(seconds: int) -> str:
    if seconds % 3600 == 0:
        return f"{seconds // 3600} h"
    return f"{seconds // _MINUTE_S} min" if seconds % _MINUTE_S == 0 else f"{seconds} s"


def _layered(*charts: alt.Chart) -> alt.LayerChart:
    return alt.LayerChart(layer=list(charts))


def _clock_axis() -> alt.Axis:
    return alt.Axis(format="%H:%M:%S", labelOverlap=True)
