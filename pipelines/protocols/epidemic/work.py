"""What a round of protocol ``epidemic`` has made so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame

from pipelines.contract.round import OUTBOX, Round, RoundResult, outbox_types
from pipelines.protocols.epidemic import PUBLISHER_PULL, PUSH, SUBSCRIBER_PULL
from pipelines.protocols.epidemic.tables import PAYLOAD

SENT_AS = outbox_types(PAYLOAD)
"""All columns that a row of the outbox may have, with their SQL types."""


@dataclass
class Work:
    """What a round has made so far.

    Attributes:
        round: What the round may read.
        inbox: The due messages that the unicast did not lose.
        table: The subscription tables, as the events of the round find them.
        clock: The settings of the runs with the round in column ``now``: where plans have it as a literal, engines
            compile each round anew.
        result: What the round returns.
        outbox: Messages to send.
        fates: Rows of ``fate``.
        arrival: Copies of events that came or were published in the round, see `events`; None: none did.
        gap: What their counters tell of lost events, see `losses`; None: nothing.
        cached: Copies that were put into caches, see `caching`; None: none were.
    """

    round: Round
    inbox: DataFrame
    table: DataFrame
    clock: DataFrame
    result: RoundResult = field(default_factory=RoundResult)
    outbox: list[DataFrame] = field(default_factory=list)
    fates: list[DataFrame] = field(default_factory=list)
    arrival: DataFrame | None = None
    gap: DataFrame | None = None
    cached: DataFrame | None = None

    def now(self, name: str) -> DataFrame:
        """Returns the newest form of a relation."""
        return self.result.state.get(name, self.round.state[name])

    def put(self, name: str, frame: DataFrame) -> DataFrame:
        """Changes a relation that later steps of the round read; returns it."""
        self.result.state[name] = kept = self.round.keep(name, frame)
        return kept

    def send(self, row: DataFrame, *fields: str) -> None:
        """Puts messages into the outbox.

        Args:
            row: Columns of `contract.OUTBOX` and the given ones.
            fields: What else the rows say: fields of the payload, ``latency_rounds``.
        """
        given = {*OUTBOX, *fields}
        columns = (f"cast({name if name in given else 'null'} as {kind}) as {name}" for name, kind in SENT_AS.items())
        # Planning a union takes much longer than planning its parts one by one.
        self.outbox.append(self.round.keep("sent", row.selectExpr(*columns)))

    def has(self, *kinds: str) -> bool:
        """Returns whether messages or calls of any of the kinds are due."""
        return not self.round.due.kinds.isdisjoint(kinds)

    def setting(self, *names: str) -> DataFrame:
        """Returns columns of ``clock``, with ``run_id``."""
        return self.clock.select("run_id", *names).hint("shuffle_hash")

    @property
    def strategies(self) -> set[str]:
        """The recovery strategies of the runs."""
        return {setting.recovery for setting in self.round.settings}

    @property
    def pushes(self) -> bool:
        """Whether any run recovers by push."""
        return not self.strategies.isdisjoint(PUSH)

    @property
    def pulls(self) -> bool:
        """Whether any run recovers by pull."""
        return not self.strategies.isdisjoint({*SUBSCRIBER_PULL, *PUBLISHER_PULL})

    def close(self) -> RoundResult:
        """Puts the outbox and the fates together."""
        if self.outbox:
            self.result.outbox = reduce(DataFrame.unionAll, self.outbox)
        if self.fates:
            self.result.fate = reduce(DataFrame.unionAll, self.fates)
        return self.result


def among(names: tuple[str, ...]) -> str:
    """Returns SQL for the runs whose strategy is one of these; reads column ``recovery``."""
    return f"recovery in ({', '.join(repr(name) for name in names)})"
