"""The network step of the dataflow form: puts messages on links, and selects the due messages.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.contract.round import in_flight_schema
from pipelines.contract.rows import row_number
from pipelines.errors import InternalError

_HEAD = ["kind", "src", "dst", "sent_round"]
_BEFORE_FATE = ["run_id", "message_id", *_HEAD, "due_round", "remaining_rounds", "source", "source_seq"]
_GROUP = "src div 1024"
"""SQL for the group of a sender; the messages of a group are numbered in one window partition.

With one window partition for each sender, the numbering takes four times as long.
"""
_ORDER = "src, trigger, rank, dst, source, source_seq, kind"
_NUMBER = f"cast({row_number('messages of a round', f'run_id, {_GROUP}', _ORDER)} as bigint)"
_ID = f"sent_round * {1 << 40} + ({_GROUP}) * {1 << 30} + {{number}} as message_id"
DIGEST = (
    "concat_ws(',', kind, coalesce(cast(remaining_rounds as string), ''), cast(fate is null as string),"
    " coalesce(cast(remaining_rounds = due_round - sent_round as string), ''))"
)
"""SQL for the digest of a message in flight: a string of the properties by which the driver counts messages."""


def put_on_links(
    outbox: DataFrame, link: DataFrame, latency: int | None, payload: T.StructType, crash: DataFrame | None
) -> DataFrame:
    """Returns the messages of `outbox` as messages in flight, with their ids, due rounds and fates.

    Args:
        outbox: The messages, see `contract.round`; a null ``latency_rounds`` stands for the latency of the link.
        link: Table ``link``.
        latency: The latency of all links of all runs; None if latencies differ.
        payload: The protocol's payload.
        crash: The crash schedule, with columns `faults.CRASH`; None if no node crashes.
    """
    message_id = _ID.format(number=_NUMBER)
    known = ["source", "source_seq", "latency_rounds as named_rounds"]
    numbered = outbox.selectExpr("run_id", message_id, *_HEAD, *known, *payload.names)
    if latency is None:
        numbered = numbered.hint("shuffle_hash").join(link, ["run_id", "src", "dst"], "left")
    wait = f"coalesce(named_rounds, {'latency_rounds' if latency is None else f'cast({latency} as bigint)'})"
    times = [f"sent_round + {wait} as due_round", f"{wait} as remaining_rounds"]
    head = ["run_id", "message_id", *_HEAD, *times, "source", "source_seq"]
    if crash is None:
        return numbered.selectExpr(*head, "cast(null as string) as fate", *payload.names)
    return _with_crashes(numbered.selectExpr(*head, *payload.names), crash, payload.names)


def _with_crashes(message: DataFrame, crash: DataFrame, fields: Sequence[str]) -> DataFrame:
    down = crash.selectExpr(
        "run_id as down_run", "node_id as down_node", "round as down_round", "end_round as up_round"
    )
    meets = (
        "run_id = down_run and dst = down_node and due_round >= down_round"
        " and (up_round is null or due_round < up_round)"
    )
    lost = "case when down_node is not null then 'lost_crash' end as fate"
    return message.join(down.hint("shuffle_hash"), F.expr(meets), "left").selectExpr(*_BEFORE_FATE, lost, *fields)


def waiting_messages(in_flight: DataFrame, step: int, payload: T.StructType) -> DataFrame:
    """Returns the messages that are still in flight after ``step`` rounds, with reduced ``remaining_rounds``."""
    shorter = f"remaining_rounds - {step} as remaining_rounds"
    names = in_flight_schema(payload).names
    columns = [shorter if name == "remaining_rounds" else name for name in names]
    return in_flight.where(f"remaining_rounds > {step}").selectExpr(*columns)


@dataclass(frozen=True)
class InFlightCounts:
    """Counts of the messages in flight, over all runs.

    Attributes:
        waits: For each message kind, the number of rounds until its first message is due. Messages that no node will
            handle are ignored.
        last_wait: The number of rounds until the last message is due; 0 if no message is in flight.
        n_messages: The number of messages.
        n_new: The number of messages that nodes sent in the last executed round.
    """

    waits: dict[str, int]
    last_wait: int
    n_messages: int
    n_new: int


def in_flight_counts(counts: Mapping[str, int]) -> InFlightCounts:
    """Adds up `counts`, which maps each value of the SQL expression `DIGEST` to its number of messages.

    Raises:
        InternalError: A message was sent over a link that does not exist.
    """
    waits, last_wait, n_new = dict[str, int](), 0, 0
    for digest, count in counts.items():
        kind, remaining, is_handled, is_new = digest.split(",")
        if not remaining:
            raise InternalError(f"{count:,} messages ({kind}) were sent between nodes without a link")
        wait = int(remaining)
        last_wait = max(last_wait, wait)
        if is_handled == "true":
            waits[kind] = min(wait, waits.get(kind, wait))
        n_new += count if is_new == "true" else 0
    return InFlightCounts(waits, last_wait, sum(counts.values()), n_new)
