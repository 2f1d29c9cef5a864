"""The round engine of the dataflow form: one Spark job executes a round of all runs of a protocol.

A round has these steps:

1. **faults**: a node that crashes loses its rows of all relations that are not durable; a node that recovers reads its
   durable rows from the store. **inbox**: the engine selects the due messages and calls;
2. **protocol steps**: the steps of the protocol extend a lazy plan (`contract.round`);
3. **network**: the engine adds the sent messages (the outbox) to the messages in flight (`_put_on_links`);
4. **checkpoint**: one job computes state, messages in flight and history rows, and truncates their lineage
   (`engines.checkpoints`); the driver receives the history rows, and counts of all other rows;
5. **commit**, every k rounds: the engine writes history and state to the store.

A round replaces a relation or adds rows to it. The added rows are kept apart from the rows before, so that a round with
few messages writes few rows. Each round writes all added rows again; when this has cost as much as it takes to write
the whole relation, a round writes the whole relation.

The driver knows from the counts which kinds of messages are due in each later round. The engine skips rounds without
due messages and calls. If no message or call of a kind is due in a round, the plan omits the steps for this kind.

A message in flight has the columns of `in_flight_schema`: the columns of table ``message``, the protocol's payload, and
``remaining_rounds``. Column ``remaining_rounds`` counts the rounds until the message is due. Because of this countdown,
all rounds have the same plan, and an engine compiles the plan once. A comparison of ``due_round`` with a literal would
change the plan in each round.

The fate of a message is ``delivered``, or the reason why no node handles the message. Crashes are known in advance.
A message whose receiver will be down gets fate ``lost_crash`` when it is sent, and no node handles it. A message from a
node to itself is a timer: it needs no link, and the sender sets its delay. Link faults, pauses and link replacements
exist in the form ``program`` only (`udfs.nodes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.contract.round import (
    CALL_EVENT_COLUMNS,
    DataflowForm,
    FaultsDue,
    Round,
    RoundResult,
    RunTables,
    in_flight_schema,
)
from pipelines.contract.rows import row_number
from pipelines.engines.checkpoints import CheckpointResult, Checkpoints, Part
from pipelines.engines.frames import arrow_of, union
from pipelines.errors import InternalError
from pipelines.rounds.commit import CALL_EVENT, History
from pipelines.rounds.loop import Rounds
from pipelines.rounds.schedule import Calls, Crashes
from pipelines.tables import DELIVERY, MESSAGE, NODE_STATUS, STRING

_NODE = ["run_id", "node_id"]
_IN_FLIGHT: Final = "in_flight"
_ADDED: Final = "added-"
"""The prefix of the name of a checkpoint's part with rows that are added to a relation."""
_EVENTS: Final = {
    DELIVERY.name: DELIVERY.schema,
    NODE_STATUS.name: NODE_STATUS.schema,
    CALL_EVENT: T.StructType(
        [T.StructField(name, STRING if name == "event" else T.LongType()) for name in CALL_EVENT_COLUMNS]
    ),
}
"""The history tables that a round adds rows to, except ``message``, named like attributes of `RoundResult`."""
_GROUP = "src div 1024"
"""SQL for the group of a sender; the messages of a group are numbered in one window partition.

With one window partition for each sender, the numbering takes four times as long.
"""
_ORDER = "src, trigger, rank, dst, source, source_seq, kind"
_NUMBER = f"cast({row_number('messages of a round', f'run_id, {_GROUP}', _ORDER)} as bigint)"
_ID = f"sent_round * {1 << 40} + ({_GROUP}) * {1 << 30} + {_NUMBER} as message_id"
DIGEST = "concat_ws(',', kind, coalesce(cast(remaining_rounds as string), ''), cast(fate is null as string))"
"""SQL for the digest of a message in flight: a string of the properties by which the driver counts messages."""


def in_flight_counts(counts: Mapping[str, int]) -> tuple[dict[str, int], Counter[int]]:
    """Counts the messages in flight; `counts` maps each value of the SQL expression `DIGEST` to its number of messages.

    Returns:
        A pair. The first item maps each message kind to the number of rounds until its first message is due; messages
        that no node will handle are ignored. The second item is the number of messages for each number of rounds until
        they are due.

    Raises:
        InternalError: A message was sent over a link that does not exist.
    """
    waits, by_wait = dict[str, int](), Counter[int]()
    for digest, count in counts.items():
        kind, remaining, is_handled = digest.split(",")
        if not remaining:
            raise InternalError(f"{count:,} messages ({kind}) were sent between nodes without a link")
        by_wait[int(remaining)] += count
        if is_handled == "true":
            waits[kind] = min(int(remaining), waits.get(kind, int(remaining)))
    return waits, by_wait


@dataclass(frozen=True)
class _Rows:
    """Materialised rows of a relation.

    Attributes:
        base: The rows at the last round that wrote the whole relation.
        added: The rows that rounds have added since; None if there are no such rows.
        counts: The number of rows of `base` and of `added` for each digest (`Part.digest`).
        n_rewritten: The number of added rows that rounds have written since; each round writes all added rows again.
    """

    base: DataFrame
    added: DataFrame | None = None
    counts: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    n_rewritten: int = 0

    @property
    def frames(self) -> list[DataFrame]:
        return [self.base] if self.added is None else [self.base, self.added]

    @property
    def is_fragmented(self) -> bool:
        """Whether rounds have written more added rows than it takes to write `base` again."""
        return self.n_rewritten > sum(self.counts[0].values())

    def with_added(self, added: DataFrame, counts: Mapping[str, int]) -> _Rows:
        n_rewritten = self.n_rewritten + sum(counts.values())
        return _Rows(self.base, added, (self.counts[0], counts), n_rewritten)


class Relations:
    """The state relations of one protocol that rounds read and write."""

    def __init__(self, protocol: DataflowForm, checkpoints: Checkpoints) -> None:
        """Starts with empty relations; `checkpoints` computes their rows and truncates their lineage."""
        self._checkpoints = checkpoints
        self._states = {state.table.name: state for state in protocol.states}
        self._rows = {name: _Rows(checkpoints.empty(state.table.schema)) for name, state in self._states.items()}
        self._changed: set[str] = set()

    @property
    def kept(self) -> list[DataFrame]:
        """The materialised frames of all relations, which later rounds read."""
        return [frame for rows in self._rows.values() for frame in rows.frames]

    @property
    def facts(self) -> dict[str, dict[str, int]]:
        """The counters of each relation, by name."""
        return {
            name: {
                fact: sum(n for counts in rows.counts for digest, n in counts.items() if fact in digest.split(","))
                for fact in self._states[name].facts
            }
            for name, rows in self._rows.items()
        }

    def frames(self) -> dict[str, DataFrame]:
        """Returns the frame of each relation, by name, for the next round."""
        return {name: union(rows.frames) for name, rows in self._rows.items()}

    def after_faults(
        self, crashes: FaultsDue, stored: Callable[[str], DataFrame]
    ) -> tuple[dict[str, DataFrame], list[str]]:
        """Returns the relations after the faults of a round, and the names of those that the round has to checkpoint.

        `stored` returns the latest version of a state table.
        """
        state, touched = self.frames(), []
        for name, known in self._states.items():
            if known.is_durable and crashes.recovered is not None:
                node = crashes.recovered.selectExpr(*_NODE).hint("shuffle_hash")
                stored_rows = stored(f"state_{name}").join(node, _NODE, "left_semi")
                rows = self._checkpoints(f"stored_{name}", stored_rows)
                state[name] = _without(state[name], crashes.recovered).unionByName(rows)
            elif not known.is_durable and crashes.crashed is not None:
                state[name] = _without(state[name], crashes.crashed)
            else:
                continue
            touched.append(name)
        return state, touched

    def parts(self, state: Mapping[str, DataFrame], added: Mapping[str, DataFrame]) -> dict[str, Part]:
        """Returns the arguments of a checkpoint for the relations that a round replaces (`state`) or adds rows to.

        A relation in `state` and `added` is replaced by the rows of both. The part of a fragmented relation has all its
        rows.
        """
        found = {name: self._part(name, rows) for name, rows in state.items() if name not in added}
        for name, new in added.items():
            rows, compact = self._rows[name], self._states[name].compact
            if name in state:
                found[name] = self._part(name, compact(state[name].unionByName(new)))
            elif rows.is_fragmented:
                found[name] = self._part(name, compact(union([*rows.frames, new])))
            else:
                found[f"{_ADDED}{name}"] = self._part(name, union([*rows.frames[1:], new]))
        return found

    def _part(self, name: str, rows: DataFrame) -> Part:
        state = self._states[name]
        flags = ", ".join(f"case when {condition} then '{fact}' end" for fact, condition in state.facts.items())
        return Part(rows, state.table.schema, f"concat_ws(',', {flags})" if flags else "''")

    def take(self, result: CheckpointResult, *, is_stored: bool = False) -> None:
        """Takes over the frames of a checkpoint of `parts`. If `is_stored`, the store has their rows."""
        for name, before in self._rows.items():
            added = f"{_ADDED}{name}"
            if name in result.frames:
                self._rows[name] = _Rows(result.frames[name], None, (result.counts[name], {}))
            elif result.counts.get(added):
                self._rows[name] = before.with_added(result.frames[added], result.counts[added])
            if not is_stored and self._rows[name] is not before:
                self._changed.add(name)

    def to_write(self, *, only_durable: bool = False) -> dict[str, DataFrame]:
        """Returns the state tables that changed since the last call, by table name, each as one frame."""
        names = sorted(name for name in self._changed if self._states[name].is_durable or not only_durable)
        self._changed.difference_update(names)
        return {f"state_{name}": self._states[name].compact(union(self._rows[name].frames)) for name in names}


def _without(frame: DataFrame, node: DataFrame) -> DataFrame:
    return frame.join(node.selectExpr(*_NODE).hint("shuffle_hash"), _NODE, "left_anti")


class RoundEngine(Rounds):
    """Executes the runs of one protocol in the dataflow form, one round after the other."""

    def __init__(
        self, *, name: str, protocol: DataflowForm, checkpoints: Checkpoints, calls: Calls, history: History,
        crashes: Crashes, run: RunTables, latency: int | None, settings: Sequence[Any],
    ) -> None:  # fmt: skip
        """Starts with empty relations and no messages in flight.

        `latency` is the latency of all links, None if latencies differ. `settings` has the distinct settings objects.
        """
        self.name, self.history, self.round = name, history, -1
        self._protocol, self._checkpoints, self._calls, self._crashes = protocol, checkpoints, calls, crashes
        self._run, self._latency, self._settings = run, latency, settings
        self._relations = Relations(protocol, checkpoints)
        self._schema = in_flight_schema(protocol.payload)
        self._in_flight = checkpoints.empty(self._schema)
        self._waits, self._by_wait = in_flight_counts({})

    def start(self, result: RoundResult) -> None:
        """Sets the initial relations from `result`, the result of `DataflowForm.start`."""
        self._finish("start", 0, self._changed(result, []), None, result)

    def resume(self, round_: int, state: Mapping[str, DataFrame], in_flight: DataFrame) -> None:
        """Restores the relations and the messages in flight as stored at the end of round `round_`."""
        parts = self._relations.parts(state, {})
        cut = self._checkpoint(f"resume after round {round_}", {**parts, _IN_FLIGHT: self._flight(in_flight)})
        self._relations.take(cut, is_stored=True)
        self.round = round_

    def play(self, upcoming: int, last: int) -> int:
        """Executes round `upcoming`; returns the number of due messages."""
        step, before, by_wait = upcoming - self.round, self._in_flight, self._by_wait
        if self._crashes.has_crash(upcoming):
            # A crashed node reads its durable rows from the store when it recovers.
            self.history.write_through(self._relations.to_write(only_durable=True))
        n_due = sum(count for wait, count in by_wait.items() if wait <= step)
        is_all_due = n_due == by_wait.total()
        # 1. faults, inbox: messages that are due in skipped rounds already have a fate, so no node handles them
        due = before if is_all_due else before.where(f"remaining_rounds <= {step}")
        crashes = self._crashes.due(upcoming)
        state, touched = self._relations.after_faults(crashes, self.history.read_state)
        # 2. protocol steps
        result = self._protocol.round(self._round(upcoming, due, crashes, state))
        result.state = {**{name: state[name] for name in touched}, **result.state}
        # 3. network
        waiting = [] if is_all_due else [self._waiting(step)]
        # 4. checkpoint
        parts = self._changed(result, waiting)
        self._finish(f"round {upcoming}", upcoming, parts, due if by_wait else None, result)
        self.round = upcoming
        return n_due

    def commit(self, horizon: int | None = None) -> None:
        """Writes the buffered history rows and the changed state."""
        with self._checkpoints.session.tagged(f"{self.name}: commit after round {max(self.round, 0)}"):
            state, rest = {**self._relations.to_write(), "state_message": self._in_flight}, None
            if horizon is not None:
                state["state_message"] = self._waiting(horizon - self.round)
                columns = self._message_columns("coalesce(fate, 'in_flight')")
                rest = arrow_of(self._in_flight.selectExpr(*columns))
            self.history.commit(max(self.round, 0), state, rest)

    @property
    def n_in_flight(self) -> int:
        """The number of messages in flight."""
        return self._by_wait.total()

    def next_round(self) -> int | None:
        """Returns the next round with an event; None if no event remains."""
        wait = min(self._waits.values(), default=None)
        due = None if wait is None else self.round + wait
        found = (due, self._calls.next_round(self.round), self._crashes.next_round(self.round))
        return min((round_ for round_ in found if round_ is not None), default=None)

    def _round(self, upcoming: int, due: DataFrame, crashes: FaultsDue, state: Mapping[str, DataFrame]) -> Round:
        calls = self._calls.due(upcoming)
        if calls is not None and crashes.down is not None:
            calls = calls.join(crashes.down.selectExpr(*_NODE).hint("shuffle_hash"), _NODE, "left_anti")
        due_kinds = (kind for kind, wait in self._waits.items() if wait == upcoming - self.round)
        kinds = {*due_kinds, *self._calls.kinds(upcoming)}
        inbox, facts = due.where("fate is null"), self._relations.facts
        return Round(
            upcoming, inbox, calls, frozenset(kinds), state, facts, self._run, self._settings, crashes,
            self._checkpoints,
        )  # fmt: skip

    def _changed(self, result: RoundResult, waiting: list[DataFrame]) -> dict[str, Part]:
        """Returns the relations that `result` changes, and its messages and the `waiting` ones, for a checkpoint."""
        messages = list(waiting)
        if result.outbox is not None:
            messages.append(self._put_on_links(result.outbox))
        flight = union(messages) if messages else self._checkpoints.empty(self._schema)
        return {**self._relations.parts(result.state, result.added), _IN_FLIGHT: self._flight(flight)}

    def _put_on_links(self, outbox: DataFrame) -> DataFrame:
        """Returns the messages of `outbox` as messages in flight, with their ids, due rounds and fates."""
        latency, crash = self._latency, self._crashes.schedule
        known = ["source", "source_seq", "latency_rounds as named_rounds", *self._protocol.payload.names]
        message = outbox.selectExpr("run_id", _ID, "kind", "src", "dst", "sent_round", *known)
        if latency is None:
            message = message.hint("shuffle_hash").join(self._run.link, ["run_id", "src", "dst"], "left")
        wait = f"coalesce(named_rounds, {'latency_rounds' if latency is None else f'cast({latency} as bigint)'})"
        given = {"due_round": f"sent_round + {wait}", "remaining_rounds": wait, "fate": "cast(null as string)"}
        names = self._schema.names
        message = message.selectExpr(*(f"{given[name]} as {name}" if name in given else name for name in names))
        if crash is None:
            return message
        down = crash.selectExpr(
            "run_id as down_run", "node_id as down_node", "round as down_round", "end_round as up_round"
        )
        is_down = (
            "run_id = down_run and dst = down_node and due_round >= down_round"
            " and (up_round is null or due_round < up_round)"
        )
        met = message.join(down.hint("shuffle_hash"), F.expr(is_down), "left")
        lost = "case when down_node is not null then 'lost_crash' end as fate"
        return met.selectExpr(*(lost if name == "fate" else name for name in names))

    def _waiting(self, step: int) -> DataFrame:
        """Returns the messages that are still in flight after `step` rounds, with reduced ``remaining_rounds``."""
        shorter = f"remaining_rounds - {step} as remaining_rounds"
        columns = [shorter if name == "remaining_rounds" else name for name in self._schema.names]
        return self._in_flight.where(f"remaining_rounds > {step}").selectExpr(*columns)

    def _flight(self, rows: DataFrame) -> Part:
        return Part(rows, self._schema, DIGEST)

    def _finish(
        self, what: str, round_: int, parts: Mapping[str, Part], due: DataFrame | None, result: RoundResult
    ) -> None:
        """Computes the frames of round `round_` in job `what`, stores the relations, and buffers the history rows."""
        history = {
            name: Part(rows, schema) for name, schema in _EVENTS.items() if (rows := getattr(result, name)) is not None
        }
        if due is not None:
            history[MESSAGE.name] = Part(self._handled(due, result.fate), MESSAGE.schema)
        cut = self._checkpoint(what, {**parts, **history}, history)
        self._relations.take(cut)
        self.history.add(round_, {name: rows for name, rows in cut.tables.items() if len(rows)})
        self._checkpoints.end_round([self._in_flight, *self._relations.kept])

    def _checkpoint(
        self, what: str, parts: Mapping[str, Part], fetched: Mapping[str, Part] | None = None
    ) -> CheckpointResult:
        with self._checkpoints.session.tagged(f"{self.name}: {what}"):
            cut = self._checkpoints.checkpoint(parts, fetched or ())
        self._in_flight = cut.frames[_IN_FLIGHT]
        self._waits, self._by_wait = in_flight_counts(cut.counts[_IN_FLIGHT])
        return cut

    def _handled(self, due: DataFrame, fate: DataFrame | None) -> DataFrame:
        """Returns the messages `due` as rows of table ``message``; `fate` contains the fates that the protocol set."""
        if fate is None:
            return due.selectExpr(*self._message_columns("coalesce(fate, 'delivered')"))
        dropped = fate.selectExpr("run_id", "message_id", "fate as dropped")
        found = due.join(dropped, ["run_id", "message_id"], "left")
        return found.selectExpr(*self._message_columns("coalesce(fate, dropped, 'delivered')"))

    def _message_columns(self, fate: str) -> list[str]:
        own = {"fate": f"{fate} as fate", "body": f"{self._protocol.body} as body"}
        return [own.get(name, name) for name in MESSAGE.columns]
