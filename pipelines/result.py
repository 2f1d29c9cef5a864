"""A store that is open: how its runs ended, its tables, its audits, its stories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from pipelines.audits.run import AuditReport, Verdict, audit_all, record
from pipelines.contract.settings import nfc
from pipelines.engines.frames import frame_of
from pipelines.engines.session import Session, beside
from pipelines.errors import StoreError, plural
from pipelines.experiment.manifest import Manifest
from pipelines.report.document import Asked
from pipelines.report.pictures import Picture
from pipelines.report.plots import Plot
from pipelines.report.replay import Span
from pipelines.report.show import Replay, diagram_of, plot_of, replay_of, write_report
from pipelines.sql.errors import readable_errors
from pipelines.sql.query import StoreReader
from pipelines.sql.small_store import VERY_FEW_BYTES, reader_of
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
_FEW_BYTES = 32 * 1024**2
_SHOWN = 20


@dataclass(frozen=True)
class RunRow:
    """How one run ended: a row of table ``run``.

    Attributes:
        run_id: Its id in all tables.
        seed: What its random draws started from.
        parameters: Settings of the protocol and values of the grid, path to value.
        verdict: ``valid``, ``invalid`` or ``unknown``.
        within_bound: Whether the faults stayed within the protocol's fault model; None: not audited.
        rounds: The last round in which anything happened; None: not audited.
    """

    run_id: int
    seed: int
    parameters: Mapping[str, Any]
    verdict: Verdict
    within_bound: bool | None
    rounds: int | None


class Result:
    """A store that is open. A context manager: leaving it stops the engine, unless it is the caller's.

    Attributes:
        store: Folder of the store, or its place in a bucket or in HDFS.
        session: The engine that answers.
        reader: The store's tables and views.
        runs: How the runs ended, by id.
    """

    def __init__(self, store: Root, session: Session) -> None:
        """Reads how the runs ended.

        Args:
            store: Where it is.
            session: The engine that answers; closed with the result.
        """
        self.store = store
        self.session = session
        self.reader = reader_of(session, store.absolute())
        self.runs = _runs(Store(store.absolute(), session))

    @property
    def verdict(self) -> Verdict:
        """``invalid`` if a guarantee is broken in any run, else ``unknown`` if any is not decided, else ``valid``."""
        found = {run.verdict for run in self.runs}
        if "invalid" in found:
            return "invalid"
        return "valid" if found == {"valid"} else "unknown"

    @property
    def is_audited(self) -> bool:
        """Whether the guarantees of all runs were checked."""
        return all(run.rounds is not None for run in self.runs)

    @property
    def violations(self) -> DataFrame:
        """Table ``violation``: one row a broken guarantee."""
        return self.table("violation")

    @property
    def tables(self) -> list[str]:
        """The names of the store's tables and views; ``sql("DESCRIBE name")`` says what one of them holds."""
        return self.reader.tables()

    def table(self, name: str, as_of_round: int | None = None) -> DataFrame:
        """Returns a table of the store, or a view.

        Args:
            name: Its bare name.
            as_of_round: Only what was so at the end of this round; None for all.

        Raises:
            QueryError: There is no such table.
        """
        return self.reader.table(name, as_of_round)

    def sql(self, text: str, as_of_round: int | None = None) -> DataFrame:
        """Answers a SQL query over the tables and the views, by their bare names.

        Args:
            text: One SELECT.
            as_of_round: Only what was so at the end of this round; None for all.

        Raises:
            QueryError: The query cannot be answered.
        """
        return self.reader.sql(text, as_of_round)

    def to_pandas(self, query: str, as_of_round: int | None = None) -> pd.DataFrame:
        """Returns a table, a view, or the answer to a query as a pandas table.

        Args:
            query: A bare name, or one SELECT.
            as_of_round: Only what was so at the end of this round; None for all.

        Raises:
            QueryError: There is no such table, or the query cannot be answered.
        """
        rows: pd.DataFrame = self.to_arrow(query, as_of_round).to_pandas()
        return rows

    def to_arrow(self, query: str, as_of_round: int | None = None) -> pa.Table:
        """Returns a table, a view, or the answer to a query as an Arrow table; arguments as in `to_pandas`.

        Raises:
            QueryError: There is no such table, or the query cannot be answered.
        """
        with readable_errors():
            frame = self.table(query, as_of_round) if query.isidentifier() else self.sql(query, as_of_round)
            return frame.toArrow()

    def summary(self) -> pd.DataFrame:
        """Returns a row a run: its parameters, its seed, how it ended and its measures, as view ``result`` has them."""
        return self.to_pandas("select * from result order by run_id")

    def __repr__(self) -> str:
        """Returns the number of runs, the verdict and the place of the store."""
        return f"{plural(len(self.runs), 'run')}: {self.verdict}; history in {self.store}"

    def _repr_html_(self) -> str:
        """Shows how the runs ended, in a notebook."""
        shown = self.summary().head(_SHOWN).to_html(index=False, float_format="{:.4g}".format)
        more = (
            f"<p>{len(self.runs) - _SHOWN:,} more runs: <code>summary()</code></p>" if len(self.runs) > _SHOWN else ""
        )
        return f"<p><b>{escape(repr(self))}</b></p>{shown}{more}"

    def compare_node(self, run_id: int, node: str) -> DataFrame:
        """Compares the state tables of a node before each of its crashes, after the recovery, and at the end.

        Args:
            run_id: The run.
            node: The node's name.

        Returns:
            One row per crash and state table: how many rows of the node it held, at the commits nearest to these
            moments; columns `comparison.COMPARED`. Rounds and durations of crashes are in view ``node_recovery``.

        Raises:
            QueryError: There is no such run, or no such node in it.
        """
        rows = compare_node(self.reader, run_id, nfc(node))
        return frame_of(self.session.spark, rows)

    def why(self, run_id: int, subscriber: str, source: str, seq: int | None = None, call: int | None = None) -> Story:
        """Returns the story of one publication for one subscriber: each hop, and what ended it; ``print`` shows it.

        Args:
            run_id: The run.
            subscriber: Name of the node that got it, or should have.
            source: Name of the publisher.
            seq: Its number among the publications that the publisher issued; or
            call: its number among all calls of the publisher, ``source_seq`` in the tables.

        Raises:
            QueryError: There is no such run, node or publication.
        """
        return story(self.reader, run_id, nfc(subscriber), nfc(source), seq, call)

    def lost_by_moves(self, run_id: int | None = None) -> list[MoveLoss]:
        """Returns the publications that moving applications lost (``workload.moves``), by run and round.

        Args:
            run_id: The run; None: all.
        """
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
        return lost_by_moves(self.reader, sorted(listed), run_id)

    def report(
        self, runs: Sequence[int] = (), first_round: int = 0, last_round: int | None = None,
        out: str | Path | None = None,
    ) -> Root:  # fmt: skip
        """Writes one HTML file of the store, which opens without a network.

        Args:
            runs: The runs to replay; none: all of up to three, else the worst and the median.
            first_round: The first round of the replays.
            last_round: The last one; None for the end of each run.
            out: The file; None for ``report.html`` in the store's folder.

        Returns:
            The file.

        Raises:
            QueryError: There is no such run, or the file cannot be written.
        """
        asked = Asked(tuple(runs), Span(first_round, last_round))
        return write_report(self.reader, self.store, asked, None if out is None else Path(out))

    def replay(self, run_id: int = 0, first_round: int = 0, last_round: int | None = None) -> Replay:
        """Returns the report of a run, which shows itself in a notebook and opens with the replay.

        Args:
            run_id: The run.
            first_round: The first round of the replay.
            last_round: The last one; None for the end of the run.

        Raises:
            QueryError: There is no such run.
        """
        return replay_of(self.reader, self.store, run_id, Span(first_round, last_round))

    def space_time(
        self, run_id: int = 0, source: str | None = None, call: int | None = None, node: str | None = None,
        rounds: tuple[int, int] | None = None,
    ) -> Picture:  # fmt: skip
        """Returns a space-time diagram, which shows itself in a notebook; ``save`` writes it as SVG.

        Args:
            run_id: The run.
            source: Name of a publisher; with ``call`` the publication whose messages are shown.
            call: Its number among all calls of the publisher, ``source_seq`` in the tables.
            node: Name of a node, whose messages are shown.
            rounds: The first and the last round.

        Raises:
            QueryError: There is no such run or node, or nothing, or too much, to show.
        """
        return diagram_of(self.reader, run_id, source, call, node, rounds)

    def plot(
        self, name: str | None = None, run_id: int = 0, *, x: str | None = None, y: str | None = None,
        colour: str | None = None, where: str | None = None, relation: str | None = None,
    ) -> Picture:  # fmt: skip
        """Returns a picture of a run by its name, or of columns over runs.

        It shows itself in a notebook; ``save`` writes it as SVG, PNG or PDF, and its data as CSV. Of columns, a point
        is the mean of ``y`` over the rows of one ``x`` and one ``colour``, with its 95 % confidence interval.

        Args:
            name: ``latency``, ``hops``, ``over_time``, ``kinds``, ``nodes``, ``links`` or ``states``.
            run_id: The run, for a picture by name.
            x: A column of ``relation``, or a parameter, the seed, the protocol or the verdict of runs.
            y: A column of numbers; with ``x`` in place of ``name``.
            colour: A column whose values have a colour each.
            where: A condition of SQL on the rows.
            relation: A table or view; None for the first of ``result``, ``latency_quantile`` and ``round_summary`` that
                has the columns.

        Raises:
            QueryError: There is no such run, picture or column, or there is nothing to show.
        """
        columns = None if x is None or y is None else Plot(x, y, colour, where, relation)
        return plot_of(self.reader, name, run_id, columns)

    def audit(self) -> AuditReport:
        """Checks every guarantee again, from the history alone, and writes the verdicts into the store.

        A store that cannot be written is checked, too, and the verdicts are in the answer alone.

        Returns:
            What each audit found; `runs` and `verdict` follow it.

        Raises:
            StoreError: The runs are not finished, or another program writes the store.
        """
        if not self.reader.is_finished():
            raise StoreError(
                f"the runs in {str(self.store)!r} are not finished: the last round is {self.reader.last_round()}, and "
                f"more were to come; {resume_hint(self.store)}"
            )
        with named_damage(self.store):
            if not is_writable(self.store):
                return self._audit(is_kept=False)
            with locked(self.store):
                return self._audit(is_kept=True)

    def _audit(self, *, is_kept: bool) -> AuditReport:
        store = Store(self.store.absolute(), self.session)
        with self._asked() as (reader, session, is_small):
            report = audit_all(reader, session)
            if is_kept:
                record(report, store.within(is_small=is_small))
        found = {run.run_id: run for run in report.runs}
        self.runs = [replace(run, **found[run.run_id]._asdict()) for run in self.runs]
        return report

    @contextmanager
    def _asked(self) -> Iterator[tuple[StoreReader, Session, bool]]:
        """Opens the store on the engine that is fastest for many queries, as audits ask them.

        Yields:
            The reader, the session of the engine, and whether the store is small.
        """
        root, session = self.store.absolute(), self.session
        if session.engine == "spark" and session.owns and isinstance(root, Path) and self._n_bytes <= _FEW_BYTES:
            # Spark takes ten times as long to plan the questions to a small store, and its first ones longer yet.
            with beside(session) as other:
                yield reader_of(other, root), other, True
            return
        with self.suited() as is_small:
            yield reader_of(session, root), session, is_small

    @property
    def _n_bytes(self) -> int:
        return Store(self.store.absolute(), self.session).n_bytes()

    @contextmanager
    def suited(self) -> Iterator[bool]:
        """Suits the engine to the size of the store, for several queries in one block.

        Yields:
            Whether the store is small (`VERY_FEW_BYTES`).
        """
        n_bytes = self._n_bytes
        is_small = n_bytes <= VERY_FEW_BYTES
        with self.session.suited(is_small=n_bytes <= _FEW_BYTES, is_in_one=is_small):
            yield is_small

    def publish(self, schema: str) -> list[str]:
        """Writes the history and the results as Delta tables of a schema, and replaces tables of their names.

        Args:
            schema: ``catalog.schema``, or a schema of the session's catalog; it has to exist.

        Returns:
            The names of the tables.

        Raises:
            StoreError: The schema has the tables of a store.
        """
        check_no_store(schema, self.session)
        names = [table.name for table in HISTORY if table.name != ROUND_COMMIT.name]
        written = [f"{schema}.{name}" for name in (*names, *_RESULTS)]
        for name in written:
            rows = self.table(name.rpartition(".")[2])
            rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable(name)
        return written

    def close(self) -> None:
        """Stops the engine, unless it is the caller's."""
        self.session.close()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()


def _runs(store: Store) -> list[RunRow]:
    columns = "run_id", "seed", "parameters", "verdict", "within_bound", "rounds"
    rows = sorted(store.rows(RUN.name, columns), key=itemgetter("run_id"))
    return [
        RunRow(**{**row, "parameters": json.loads(row["parameters"]), "verdict": row["verdict"] or "unknown"})
        for row in rows
    ]
