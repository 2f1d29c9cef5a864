"""What is due in a round: messages, calls and faults."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F

ANY_KIND = "*"
"""In `Due.kinds`, for protocols that do not tell kinds apart: some message is due."""


@dataclass(frozen=True)
class Due:
    """What nodes have to handle in a round.

    Attributes:
        inbox: The due messages of nodes that are up.
        calls: The due application calls; None: none.
        kinds: Kinds of the due messages (see `Protocol.told_apart`), and of the due calls in lower case: what is absent
            needs no step.
    """

    inbox: DataFrame
    calls: DataFrame | None
    kinds: frozenset[str]


@dataclass(frozen=True)
class CrashesDue:
    """What the crash schedule says of a round; None: nobody.

    Attributes:
        crashed: Nodes that crash in the round: ``run_id, node_id, incarnation, round``.
        recovered: Nodes that recover in it, with the incarnation that they have from now on.
        down: Nodes that are down after it, with the incarnation that crashed, and ``end_round``: null for good.
        disturbed: The runs in which a node has crashed by now.
    """

    crashed: DataFrame | None
    recovered: DataFrame | None
    down: DataFrame | None
    disturbed: RunSet


@dataclass(frozen=True)
class RunSet:
    """Some of the runs.

    Attributes:
        is_all: Whether they are all runs of the job.
        run: ``run_id``, where they are some of them; None: all or none.
    """

    is_all: bool
    run: DataFrame | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """Returns the rows of these runs."""
        if self.is_all:
            return rows
        if self.run is None:
            # A filter that is not known to be false keeps the placement of the rows, of which there are none.
            return rows.where("run_id < 0")
        return rows.join(self.run.hint("shuffle_hash"), "run_id", "left_semi")

    def marked(self, rows: DataFrame, name: str) -> DataFrame:
        """Returns the rows with a BOOLEAN column that says whether they are of these runs."""
        if self.run is None:
            return rows.selectExpr("*", f"{str(self.is_all).lower()} as {name}")
        flag = self.run.selectExpr("run_id", f"true as {name}").hint("shuffle_hash")
        marked = rows.join(flag, "run_id", "left")
        return marked.selectExpr(*rows.columns, f"coalesce({name}, false) as {name}")


@dataclass(frozen=True)
class FaultsDue:
    """The faults of a round; None: nobody.

    Attributes:
        crashed: Nodes that crash in the round: ``run_id, node_id, incarnation, round``. Their state is prepared: they
            have no rows in relations that are not durable.
        recovered: Nodes that recover in it, with the incarnation that they have from now on; they have the durable
            rows that the store has of them.
        down: Nodes that are down after it, with the incarnation that crashed, and ``end_round``: null for good.
        may_duplicate: Whether a message may have reached a node before, as nodes send again after a crash. Without it
            no duplicate exists, and no step needs to look for one.
        crashing: The runs in which a node crashes at some time. What a step remembers for a crash it remembers in these
            runs only, so that the rows of a run do not depend on others.
        disturbed: The runs in which a node has crashed by now.
    """

    crashed: DataFrame | None
    recovered: DataFrame | None
    down: DataFrame | None
    may_duplicate: bool
    crashing: RunSet
    disturbed: RunSet

    @property
    def may_crash(self) -> bool:
        """Whether a node of any run crashes at some time."""
        return self.crashing.is_all or self.crashing.run is not None

    def in_crashing_runs(self, rows: DataFrame) -> DataFrame:
        """Returns the rows of the runs in which a node crashes at some time."""
        return self.crashing.of(rows)

    def in_disturbed_runs(self, rows: DataFrame) -> DataFrame:
        """Returns the rows of the runs in which a node has crashed by now."""
        return self.disturbed.of(rows)

    def null_elsewhere(self, rows: DataFrame, column: str) -> DataFrame:
        """Returns the rows with a column that is null but in runs in which a node crashes at some time."""
        if self.crashing.is_all:
            return rows
        marked = self.crashing.marked(rows, "is_crashing")
        return marked.withColumn(column, F.expr(f"case when is_crashing then {column} end")).drop("is_crashing")
