"""`Result`, an open store: the verdicts of its runs, and methods for queries, audits, explanations and reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from html import escape
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pipelines.audits.run import AuditReport, Verdict, audit_all, record, store_verdict
from pipelines.engines.frames import arrow_of, frame_of
from pipelines.engines.session import Session
from pipelines.errors import EngineError, QueryError, StoreError, check_run_id, checked, plural
from pipelines.experiment.manifest import Manifest
from pipelines.report.page import Replay, replay_of, write_report
from pipelines.report.pictures import Picture
from pipelines.report.plots import Plot, draw_plot, measure_of
from pipelines.report.replay import Span
from pipelines.report.space_time import of_run
from pipelines.sql.errors import readable_errors
from pipelines.sql.query import StoreReader, fast_reader
from pipelines.store.catalog import check_no_store
from pipelines.store.damage import named_damage
from pipelines.store.folder import MANIFEST, locked, resume_hint
from pipelines.store.roots import Root, is_writable
from pipelines.store.store import Store
from pipelines.tables import HISTORY, ROUND_COMMIT, RUN
from pipelines.why import Story, story
from pipelines.why.compare_node import compare_node
from pipelines.why.moves import ApplicationMove, MoveLoss, lost_by_moves

_RESULTS = ("result", "result_summary")
_SHOWN = 20


@dataclass(frozen=True)
class RunRow:
    """The outcome of one run: a row of table ``run``.

    Attributes:
        run_id: The id of the run in all tables.
        seed: The seed of the random draws.
        parameters: The protocol settings and the grid values, keyed by their paths in the scenario.
        verdict: ``valid``, ``invalid`` or ``unknown``.
        within_bound: Whether the protocol tolerates the faults of the run; None before the audit.
        rounds: The last round with an event of the run; None before the audit.
    """

    run_id: int
    seed: int
    parameters: Mapping[str, Any]
    verdict: Verdict
    within_bound: bool | None
    rounds: int | None


class Result(AbstractContextManager["Result"]):
    """An open store, as a context manager that calls `close`.

    Attributes:
        store: The path of the store: a folder, or an address in a bucket or in HDFS.
        session: The engine that executes queries.
        reader: The tables and views of the store.
        runs: The outcomes of the runs, ordered by id.
    """

    def __init__(self, store: Root, session: Session) -> None:
        self.store = store
        self.session = session
        self.reader = StoreReader(session, store.absolute())
        self.runs = _runs(self.reader.store)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the store: ``invalid``, ``valid`` or ``unknown``; see `store_verdict`."""
        return store_verdict([run.verdict for run in self.runs])

    @property
    def is_audited(self) -> bool:
        """Whether the audits have checked all runs."""
        return all(run.rounds is not None for run in self.runs)

    @property
    def violations(self) -> DataFrame:
        """Table ``violation``: one row for each violation of a guarantee."""
        return self.table("violation")

    @property
    def tables(self) -> list[str]:
        """The names of the store's tables and views.

        ``sql("DESCRIBE name")`` describes the columns of a table or view.
        """
        return self.reader.tables()

    @checked
    def table(self, name: str, as_of_round: int | None = None) -> DataFrame:
        """Returns a table or view of the store, as of the end of round ``as_of_round``; None reads all rounds.

        Raises:
            QueryError: The store has no table or view of this name.
        """
        return self.reader.table(name, as_of_round)

    @checked
    def sql(self, text: str, as_of_round: int | None = None) -> DataFrame:
        """Runs a SQL query over the tables and views of the store.

        Args:
            text: One SELECT, which names tables and views without a schema.
            as_of_round: As in `table`.

        Raises:
            QueryError: The query is invalid, or names an unknown table or column.
        """
        return self.reader.sql(text, as_of_round)

    @checked
    def to_pandas(self, query: str, as_of_round: int | None = None) -> pd.DataFrame:
        """Returns a table, a view or the result of a query as a pandas DataFrame.

        Args:
            query: The name of a table or view, or one SELECT.
            as_of_round: As in `table`.

        Raises:
            QueryError: The query is invalid, or names an unknown table or column.
        """
        rows: pd.DataFrame = self.to_arrow(query, as_of_round).to_pandas()
        return rows

    @checked
    def to_arrow(self, query: str, as_of_round: int | None = None) -> pa.Table:
        """Returns an Arrow table; parameters and errors are those of `to_pandas`."""
        with readable_errors():
            frame = self.table(query, as_of_round) if query.isidentifier() else self.sql(query, as_of_round)
            return arrow_of(frame)

    def summary(self) -> pd.DataFrame:
        """Returns view ``result``: one row for each run, with its parameters, seed, verdict and measures."""
        return self.to_pandas("select * from result order by run_id")

    def __repr__(self) -> str:
        """Returns the number of runs, the verdict and the path of the store."""
        return f"{plural(len(self.runs), 'run')}: {self.verdict}; history in {self.store}"

    def _repr_html_(self) -> str:
        shown = self.summary().head(_SHOWN).to_html(index=False, float_format="{:.4g}".format)
        n_more = len(self.runs) - _SHOWN
        more = f"<p>{n_more:,} more runs: <code>summary()</code></p>" if n_more > 0 else ""
        return f"<p><b>{escape(repr(self))}</b></p>{shown}{more}"

    @checked
    def compare_node(self, run_id: int, node: str) -> DataFrame:
        """Compares the state of a node before each of its crashes, after the recovery, and at the end of the run.

        Returns:
            One row for each crash and state table, with the columns of `compare_node.COMPARED`. State is stored at
            commits only, so the columns count the node's rows at the nearest commits. View ``node_recovery`` contains
            the exact rounds and durations of crashes.

        Raises:
            QueryError: The store has no such run, or the run has no such node.
        """
        with self.reader.at_one_commit():
            return frame_of(self.session.spark, compare_node(self.reader, run_id, node))

    @checked
    def why(self, run_id: int, subscriber: str, source: str, seq: int | None = None, call: int | None = None) -> Story:
        """Explains the delivery of a publication to a subscriber: its hops, and the cause if it is missing or late.

        Args:
            run_id: The id of the run.
            subscriber: The name of the subscribing node.
            source: The name of the publishing node.
            seq: The number of the publication among the publications of ``source``, from 1.
            call: The number of the publication among all calls of ``source``, column ``source_seq``; replaces ``seq``.

        Raises:
            QueryError: The store has no such run, node or publication, or not exactly one of ``seq`` and ``call`` is
                set.
        """
        with self.reader.at_one_commit():
            return story(self.reader, run_id, subscriber, source, seq, call)

    @checked
    def lost_by_moves(self, run_id: int | None = None) -> list[MoveLoss]:
        """Returns the publications that applications missed while they moved, ordered by run and round.

        ``workload.moves`` of the scenario lists the moves. ``run_id`` None means all runs.

        Raises:
            QueryError: The store has no such run.
        """
        if run_id is not None:
            check_run_id(run_id, [run.run_id for run in self.runs])
        if not (self.store.absolute() / MANIFEST).is_file():
            return []
        manifest = Manifest.read(self.store.absolute())
        if not any("moves" in text for text in (manifest.text, *manifest.overrides)):
            return []
        listed = {
            ApplicationMove(one.at, one.to, one.round, one.round + one.away)
            for run in manifest.prepared().combinations()
            for one in run.scenario.workload.moves
        }
        with self.reader.at_one_commit():
            return lost_by_moves(self.reader, sorted(listed), run_id)

    @checked
    def report(
        self, runs: Sequence[int] = (), first_round: int = 0, last_round: int | None = None,
        out: str | Path | None = None,
    ) -> Root:  # fmt: skip
        """Writes the report of the store, an HTML file that needs no network connection, and returns its path.

        Args:
            runs: The runs to replay. By default these are all runs of a store with up to three runs, else the worst and
                the median run.
            first_round: The first round of the replays.
            last_round: The last round of the replays; None for the end of each run.
            out: The file; None for ``report.html`` in the folder of the store.

        Raises:
            QueryError: The store has no such run, the range of rounds is invalid, or the file cannot be written.
        """
        path, span = None if out is None else Path(out), _span(first_round, last_round)
        with self.reader.at_one_commit():
            return write_report(self.reader, self.store, runs, span, path)

    @checked
    def replay(self, run_id: int = 0, first_round: int = 0, last_round: int | None = None) -> Replay:
        """Returns the report page of one run, which initially shows the replay; notebooks display the page.

        The replay has the rounds from ``first_round`` to ``last_round``; None stands for the end of the run.

        Raises:
            QueryError: The store has no such run, or the range of rounds is invalid.
        """
        span = _span(first_round, last_round)
        with self.reader.at_one_commit():
            return replay_of(self.reader, self.store, run_id, span)

    @checked
    def space_time(
        self, run_id: int = 0, source: str | None = None, call: int | None = None, node: str | None = None,
        rounds: tuple[int, int] | None = None,
    ) -> Picture:  # fmt: skip
        """Returns a space-time diagram of one publication or of one node, which notebooks display.

        Args:
            run_id: The id of the run.
            source: The name of a publisher; with ``call``, the diagram shows the messages of this publication.
            call: The number of the publication among all calls of ``source``: column ``source_seq``.
            node: The name of a node; the diagram shows its messages.
            rounds: The first and the last round of the diagram.

        Raises:
            QueryError: The store has no such run or node, only one of ``source`` and ``call`` is given, ``rounds`` is
                invalid, or the number of messages is 0 or too large for a diagram.
        """
        if rounds is not None:
            _span(*rounds)
        with self.reader.at_one_commit(), readable_errors():
            return of_run(self.reader, run_id, source, call, node, rounds).draw(f"Run {run_id}")

    @checked
    def plot(
        self, name: str | None = None, run_id: int | None = None, *, x: str | None = None, y: str | None = None,
        colour: str | None = None, where: str | None = None, relation: str | None = None,
    ) -> Picture:  # fmt: skip
        """Returns a chart that notebooks display: chart ``name`` of one run, or a chart of two columns over all runs.

        `Picture.save` writes the chart as SVG, PNG or PDF, and its data as CSV. In a chart of columns, a point is the
        mean of ``y`` over the rows with equal ``x`` and ``colour``, with its 95 % confidence interval.

        Args:
            name: The chart: ``latency``, ``hops``, ``over_time``, ``kinds``, ``nodes``, ``links`` or ``states``.
            run_id: The run of chart ``name``; None for run 0. A chart of columns takes a condition ``where`` instead.
            x: A column of ``relation``, or a parameter, the seed, the protocol or the verdict of runs.
            y: A numeric column of ``relation``. Pass ``x`` and ``y`` instead of ``name``.
            colour: A column of ``relation`` or of runs, as for ``x``; each of its values has a colour.
            where: A SQL condition on the rows.
            relation: A table or view. By default it is the first of ``result``, ``latency_quantile`` and
                ``round_summary`` that has the columns.

        Raises:
            QueryError: The store has no such run, chart or column, the chart has no rows, or an argument of the other
                type of chart is given.
        """
        columns = {"x": x, "y": y, "colour": colour, "where": where, "relation": relation}
        named = [key for key, value in columns.items() if value is not None]
        if name is not None and named:
            raise QueryError(f"measure {name!r} takes no {', '.join(named)}; leave out the measure or the columns")
        if name is None and (x is None or y is None):
            message = "a plot shows a measure of one run, by its name, or two columns, x and y; name one of both"
            raise QueryError(message)
        if name is None and run_id is not None:
            raise QueryError(f"a plot of columns shows all runs; to show one, write the condition run_id = {run_id}")
        with self.reader.at_one_commit(), readable_errors():
            if name is not None:
                return measure_of(self.reader, run_id or 0, name)
            return draw_plot(self.reader, Plot(str(x), str(y), colour, where, relation))

    def audit(self) -> AuditReport:
        """Checks the guarantees of all runs against the stored history, and writes the verdicts into the store.

        If the store is read-only, only the returned report has the verdicts. Attribute `runs` and property `verdict`
        then have the new verdicts.

        Raises:
            StoreError: The runs are not finished, or another program writes to the store.
        """
        if not self.reader.is_finished():
            raise StoreError(
                f"the runs in {str(self.store)!r} are not finished: {self.reader.last_round()} is the last complete "
                f"round before the horizon; {resume_hint(self.store)}"
            )
        is_kept = is_writable(self.store)
        with (
            named_damage(self.store), locked(self.store) if is_kept else nullcontext(),
            fast_reader(self.reader) as reader,
        ):  # fmt: skip
            report = audit_all(reader)
            if is_kept:
                record(report, self.reader.store.reopened())
        found = {run.run_id: run for run in report.runs}
        self.runs = [replace(run, **found[run.run_id]._asdict()) for run in self.runs]
        return report

    @checked
    def publish(self, schema: str) -> list[str]:
        """Writes the history and the results as Delta tables into a schema. Tables that exist are replaced.

        ``schema`` is an existing schema: ``catalog.schema``, or a schema of the session's catalog. The result has the
        qualified names of the tables.

        Raises:
            StoreError: The schema does not exist, or it contains a store.
        """
        check_no_store(schema, self.session)
        names = [table.name for table in HISTORY if table.name != ROUND_COMMIT.name]
        written = [f"{schema}.{name}" for name in (*names, *_RESULTS)]
        for name in written:
            rows = self.table(name.rpartition(".")[2])
            rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable(name)
        return written

    def close(self) -> None:
        """Stops the engine; in a session that the caller passed, only drops the temporary views of this result."""
        if not self.session.owns:
            with suppress(EngineError, PySparkException, ValueError):  # the caller has stopped the session
                self.reader.close()
        self.session.close()

    def __exit__(self, *_: object) -> None:
        """Calls `close`."""
        self.close()


def _runs(store: Store) -> list[RunRow]:
    columns = "run_id", "seed", "parameters", "verdict", "within_bound", "rounds"
    rows = sorted(store.rows(RUN.name, columns), key=itemgetter("run_id"))
    return [
        RunRow(**{**row, "parameters": json.loads(row["parameters"]), "verdict": row["verdict"] or "unknown"})
        for row in rows
    ]


def _span(first_round: int, last_round: int | None) -> Span:
    """Returns a range of rounds; raises `QueryError` if it begins before round 0 or ends before it begins."""
    if first_round < 0 or (last_round is not None and last_round < first_round):
        given = f"the rounds are {first_round} to {last_round}"
        raise QueryError(f"{given}; allowed: a first round of 0 or more, and a last round that does not precede it")
    return Span(first_round, last_round)
