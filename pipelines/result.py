"""A store that is open: how its runs ended, its tables, its audits, its stories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame

from pipelines.audits.run import AuditReport, Verdict, audit_store, record
from pipelines.engines.inline import frame_of
from pipelines.engines.session import Session
from pipelines.errors import StoreError
from pipelines.protocols import protocol_module
from pipelines.sql.query import StoreReader
from pipelines.store.folder import locked, resume_hint
from pipelines.store.store import Store
from pipelines.tables import HISTORY, ROUND_COMMIT
from pipelines.why import Story, story
from pipelines.why.compare_node import compare_node

_RESULTS = ("result", "result_summary")
_FEW_BYTES = 32 * 1024**2


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
        store: Folder of the store.
        session: The engine that answers.
        reader: The store's tables and views.
        runs: How the runs ended, by id.
    """

    def __init__(self, store: Path, session: Session) -> None:
        """Reads how the runs ended.

        Args:
            store: Folder of the store.
            session: The engine that answers; closed with the result.
        """
        self.store = store
        self.session = session
        self.reader = StoreReader(session, store.absolute())
        self.runs = _runs(self.reader)

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
        rows = compare_node(self.reader, run_id, node)
        return frame_of(self.session.spark, rows)

    def why(self, run: int, subscriber: str, source: str, seq: int) -> Story:
        """Returns the story of one publication for one subscriber: each hop, and what ended it; ``print`` shows it.

        Args:
            run: Id of the run.
            subscriber: Name of the node that got it, or should have.
            source: Name of the publisher.
            seq: Number of the publication, ``source_seq`` in the tables.

        Raises:
            QueryError: There is no such run, node or publication.
        """
        return story(self.reader, run, subscriber, source, seq)

    def audit(self) -> AuditReport:
        """Checks every guarantee again, from the history alone, and writes the verdicts into the store.

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
        with locked(self.store):
            return self._audit()

    def _audit(self) -> AuditReport:
        [row] = self.reader.sql("select distinct protocol from run").collect()
        store = Store(self.store.absolute(), self.session)
        with self.session.suited(is_small=store.n_bytes() <= _FEW_BYTES):
            report = audit_store(self.reader, self.session, protocol_module(row.protocol))
            record(report, store)
            report.release()
        self.runs = _runs(self.reader)
        return report

    def publish(self, schema: str) -> list[str]:
        """Writes the history and the results as Delta tables of a schema, in place of what is there under their names.

        Args:
            schema: ``catalog.schema``, or a schema of the session's catalog; it has to exist.

        Returns:
            The names of the tables.
        """
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


def _runs(reader: StoreReader) -> list[RunRow]:
    columns = "run_id", "seed", "parameters", "verdict", "within_bound", "rounds"
    rows = reader.table("run").select(*columns).orderBy("run_id").collect()
    return [
        RunRow(row.run_id, row.seed, json.loads(row.parameters), row.verdict or "unknown", row.within_bound, row.rounds)
        for row in rows
    ]
