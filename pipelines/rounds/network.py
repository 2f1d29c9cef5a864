"""The network step: messages put on links, and those of them that are due.

In flight a message has the columns of `in_flight_schema`: what table ``message`` says of it, the protocol's payload,
and ``remaining_rounds``, the rounds until it is due. Counting down, rather than comparing ``due_round`` with a
literal, keeps the text of a round's plan the same, so that engines that compile plans do not compile each round anew.

Faults are known ahead (`link_faults`, `pauses`, `crashes`), so a message's end is known when it is sent: one that a
link loses, or that will find its receiver down, has its fate at once, and nobody handles it when it is due. A message
from a node to itself is a timer: it needs no link, and it is due after the rounds that the sender names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.contract.due import ANY_KIND
from pipelines.contract.in_flight import in_flight_schema
from pipelines.contract.ordering import row_number
from pipelines.rounds.faults.link_faults import LinkFaults
from pipelines.rounds.faults.pauses import Pauses

_HEAD = ["kind", "src", "dst", "sent_round"]
_BEFORE_FATE = ["run_id", "message_id", *_HEAD, "due_round", "remaining_rounds", "source", "source_seq"]
_GROUP = "src div 1024"
"""Senders whose messages are numbered together: a window over groups of a message or two takes four times as long."""
_ORDER = "src, trigger, rank, dst, source, source_seq, kind"
_NUMBER = f"cast({row_number('messages of a round', f'run_id, {_GROUP}', _ORDER)} as bigint)"
_ID = f"sent_round * {1 << 40} + ({_GROUP}) * {1 << 30} + {{number}} as message_id"


@dataclass(frozen=True)
class Faults:
    """What keeps messages from coming through as they were sent.

    Attributes:
        crash: The down times of all nodes, see `crashes.CRASH`; None where no node ever crashes.
        links: The faults of links.
        pauses: The pauses of nodes.
    """

    crash: DataFrame | None
    links: LinkFaults
    pauses: Pauses


@dataclass(frozen=True)
class Outbox:
    """What a round sends.

    Attributes:
        rows: Columns of `contract.OUTBOX` and what ``fields`` says.
        fields: The payload's columns that it has, and ``latency_rounds``; None for all.
    """

    rows: DataFrame
    fields: Collection[str] | None

    def has(self, name: str) -> bool:
        """Returns whether it has a column; one that it lacks is null."""
        return self.fields is None or name in self.fields


def put_on_links(
    outbox: Outbox, link: DataFrame, latency: int | None, payload: T.StructType, faults: Faults
) -> DataFrame:
    """Returns an outbox as messages in flight; links keep order because the latency of a link is always the same.

    Args:
        outbox: The messages; ``latency_rounds`` is null where the link's is meant.
        link: Table ``link``.
        latency: The latency of every link of every run, where it is one.
        payload: The protocol's payload.
        faults: What goes wrong.
    """
    cast = {field.name: f"cast({{}} as {field.dataType.simpleString()}) as {field.name}" for field in payload}
    body = [sql.format(name) for name, sql in cast.items() if outbox.has(name)]
    message_id = _ID.format(number=_NUMBER)
    if faults.links.may_duplicate:
        twice = ", ".join(map(str, faults.links.duplicating.to_pylist()))
        message_id = _ID.format(number=f"case when run_id in ({twice}) then 2L else 1L end * {_NUMBER}")
    known = ["source", "source_seq", *(["latency_rounds as named_rounds"] if outbox.has("latency_rounds") else [])]
    numbered = outbox.rows.selectExpr("run_id", message_id, *_HEAD, *known, *body)
    if latency is None:
        numbered = numbered.hint("shuffle_hash").join(link, ["run_id", "src", "dst"], "left")
    wait = "latency_rounds" if latency is None else f"cast({latency} as bigint)"
    if outbox.has("latency_rounds"):
        wait = f"coalesce(named_rounds, {wait})"
    times = [f"sent_round + {wait} as due_round", f"{wait} as remaining_rounds"]
    head = ["run_id", "message_id", *_HEAD, *times, "source", "source_seq"]
    fields = [name if outbox.has(name) else sql.format("null") for name, sql in cast.items()]
    if not (faults.links.is_any or faults.pauses.is_any or faults.crash is not None):
        return numbered.selectExpr(*head, "cast(null as string) as fate", *fields)
    return _with_faults(numbered.selectExpr(*head, *fields), payload.names, faults)


def _with_faults(message: DataFrame, fields: Sequence[str], faults: Faults) -> DataFrame:
    """Returns messages without a fate with what faults make of them; whatever is lost on its way meets no crash."""
    columns, fate = [*_BEFORE_FATE, *fields], None
    if faults.links.is_any:
        message, fate = faults.links.strike(message, columns, len(_BEFORE_FATE)), "fate"
        columns.insert(len(_BEFORE_FATE), fate)
    message = faults.pauses.postpone(message, columns)
    if faults.crash is not None:
        return _with_crashes(message, faults.crash, fields, fate)
    return message.selectExpr(*_BEFORE_FATE, fate or "cast(null as string) as fate", *fields)


def _with_crashes(message: DataFrame, crash: DataFrame, fields: Sequence[str], fate: str | None) -> DataFrame:
    """Marks the messages that find their receiver down."""
    down = crash.selectExpr(
        "run_id as down_run", "node_id as down_node", "round as down_round", "end_round as up_round"
    )
    meets = (
        "run_id = down_run and dst = down_node and due_round >= down_round"
        " and (up_round is null or due_round < up_round)"
    )
    lost = "case when down_node is not null then 'lost_crash' end"
    lost = f"{lost} as fate" if fate is None else f"coalesce({fate}, {lost}) as fate"
    return message.join(down.hint("shuffle_hash"), F.expr(meets), "left").selectExpr(*_BEFORE_FATE, lost, *fields)


def due_messages(in_flight: DataFrame, step: int) -> DataFrame:
    """Returns the messages that are due within ``step`` rounds; those due before that are lost ones."""
    return in_flight.where(f"remaining_rounds <= {step}")


def handled_messages(due: DataFrame) -> DataFrame:
    """Returns those of the due messages that somebody handles."""
    return due.where("fate is null")


def waiting_messages(in_flight: DataFrame, step: int, payload: T.StructType) -> DataFrame:
    """Returns the messages that are still on their way then, with the shorter wait."""
    names = in_flight_schema(payload).names
    columns = [
        f"remaining_rounds - {step} as remaining_rounds" if name == "remaining_rounds" else name for name in names
    ]
    return in_flight.where(f"remaining_rounds > {step}").selectExpr(*columns)


@dataclass(frozen=True)
class Traffic:
    """What is in flight, over all runs.

    Attributes:
        waits: For each kind in flight the rounds until the first that somebody will handle is due.
        last_wait: Rounds until the last message is due; 0 with nothing in flight.
        n_messages: How many there are.
        n_doomed: How many of them nobody will handle.
        n_new: How many of them were sent in the round just made.
    """

    waits: dict[str, int]
    last_wait: int
    n_messages: int
    n_doomed: int
    n_new: int

    @property
    def next_wait(self) -> int | None:
        """Rounds until something is due."""
        return min(self.waits.values(), default=None)

    def due_kinds(self, step: int) -> Iterable[str]:
        """The kinds that are due after so many rounds."""
        return (kind for kind, wait in self.waits.items() if wait == step)


def traffic_facts(kinds: Sequence[str]) -> dict[str, str]:
    """Returns the SQL aggregates over messages in flight that `traffic` reads.

    Args:
        kinds: The kinds that rounds tell apart, or `contract.due.ANY_KIND`.
    """
    waits = {f"wait_{kind}": f"min(case when {_is_due(kind)} then remaining_rounds end)" for kind in kinds}
    return {
        **waits, "last_wait": "max(remaining_rounds)", "n_messages": "count(1)", "n_doomed": "count(fate)",
        "n_new": "count_if(remaining_rounds = due_round - sent_round)", "n_lost": "count_if(remaining_rounds is null)",
    }  # fmt: skip


def _is_due(kind: str) -> str:
    return "fate is null" if kind == ANY_KIND else f"kind = '{kind}' and fate is null"


def traffic(facts: dict[str, int | None]) -> Traffic:
    """Reads the facts of `traffic_facts`."""
    waits = {
        name.removeprefix("wait_"): value
        for name, value in facts.items()
        if name.startswith("wait_") and value is not None
    }
    counts = (facts.get(name) or 0 for name in ("last_wait", "n_messages", "n_doomed", "n_new"))
    return Traffic(waits, *counts)
