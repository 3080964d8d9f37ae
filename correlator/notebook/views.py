"""What a `Run` offers to notebooks and other libraries, as methods; the work is done in the modules beside this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from correlator.core.files import FileReport
    from correlator.core.model import ClockModel, Diagnosis, Topology
    from correlator.graphs import Findings


class Shown(Protocol):
    """The parts of a `Run` that the views are made from."""

    @property
    def path(self) -> str:
        """What was opened, as typed."""

    @property
    def events(self) -> pl.DataFrame:
        """The event table."""

    @property
    def topology(self) -> Topology:
        """Ranks and nodes."""

    @property
    def clocks(self) -> ClockModel:
        """Clock estimates."""

    @property
    def reports(self) -> tuple[FileReport, ...]:
        """The account of each file."""

    @property
    def findings(self) -> Findings:
        """What the causal graph says."""

    @property
    def diagnosis(self) -> Diagnosis:
        """The finished answer."""

    def masked(self, *, places: bool = False) -> Shown:
        """The same run as it can be shown to others."""


class RunViews:
    """Mixed into `Run`: frames, charts, the card of a notebook, and Arrow for pandas, DuckDB and pyarrow."""

    @property
    def episodes(self: Shown) -> pl.DataFrame:
        """What befell each rank, node or GPU: one row for all the lines that tell of the same thing."""
        from correlator.notebook.frames import episodes

        return episodes(self)

    @property
    def collateral(self: Shown) -> pl.DataFrame:
        """Who was dragged in, how, and through what."""
        from correlator.notebook.frames import collateral

        return collateral(self)

    @property
    def clock_table(self: Shown) -> pl.DataFrame:
        """How each node's clock stands to the reference."""
        from correlator.notebook.frames import clock_table

        return clock_table(self)

    @property
    def progress(self: Shown) -> pl.DataFrame:
        """Steps as the ranks report them, with loss and the time that a step took."""
        from correlator.notebook.frames import progress

        return progress(self)

    def timeline_chart(self: Shown) -> alt.LayerChart:
        """Swim lanes: what befell each rank (each node, where the ranks are many), on the corrected clock."""
        from correlator.notebook.charts import timeline_chart

        return timeline_chart(self)

    def event_density_chart(self: Shown) -> alt.Chart:
        """How many events each rank has in each minute (or what else suits the length of the run)."""
        from correlator.notebook.charts import event_density_chart

        return event_density_chart(self)

    def step_time_chart(self: Shown) -> alt.LayerChart:
        """Seconds a step: the median of the ranks, the accused and the slowest."""
        from correlator.notebook.charts import step_time_chart

        return step_time_chart(self)

    def clock_chart(self: Shown) -> alt.LayerChart:
        """The offset of each node's clock with its interval."""
        from correlator.notebook.charts import clock_chart

        return clock_chart(self)

    def __arrow_c_stream__(self: Shown, requested_schema: object | None = None) -> object:
        """The event table through the Arrow PyCapsule interface: `pyarrow.table(run)`, `duckdb.sql("FROM run")`, ..."""
        from correlator.timeline import to_arrow

        return to_arrow(self.events).__arrow_c_stream__(requested_schema)

    def __repr__(self: Shown) -> str:
        ranks = len(self.topology.ranks)
        return f"<Run {self.path!r}: {self.events.height:,} events, {ranks:,} ranks, {len(self.reports):,} files>"

    def _repr_html_(self: Shown) -> str:
        from correlator.notebook.cards import run_card

        return run_card(self)
