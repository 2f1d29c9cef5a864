"""The network step: messages put on links, and those of them that are due.

In flight a message has the columns of `in_flight_schema`: what table ``message`` says of it, the protocol's payload,
and ``wait``, the rounds until it is due. Counting down, rather than comparing ``due_round`` with a literal, keeps the
text of a round's plan the same, so that engines that compile plans do not compile each round anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, types as T

from pipelines.tables import BIGINT, STRING

MAX_SENT = 1 << 20
"""A node sends fewer messages than this in one round; message ids have room for no more."""

_HEAD = ["kind", "src", "dst", "sent_round"]
_NUMBER = (
    "cast(row_number() over (partition by run_id, src order by trigger, rank, dst, source, source_seq, kind) as bigint)"
)
_ID = f"sent_round * {1 << 40} + src * {MAX_SENT} + {_NUMBER} as message_id"


def in_flight_schema(payload: T.StructType) -> T.StructType:
    """Gives the columns of messages in flight."""
    names = ["run_id", "message_id", "src", "dst", "sent_round", "due_round", "wait"]
    keys = [T.StructField(name, BIGINT, False) for name in names]
    keys.insert(2, T.StructField("kind", STRING, False))
    return T.StructType([*keys, T.StructField("source", BIGINT), T.StructField("source_seq", BIGINT), *payload.fields])


def put_on_links(outbox: DataFrame, link: DataFrame, latency: int | None, payload: T.StructType) -> DataFrame:
    """Gives an outbox as messages in flight; links keep order because the latency of a link is always the same.

    Args:
        outbox: Columns of `contract.OUTBOX` and any of the payload's.
        link: Table ``link``.
        latency: The latency of every link of every run, where it is one.
        payload: The protocol's payload.
    """
    given = set(outbox.columns)
    body = [
        f"cast({field.name if field.name in given else 'null'} as {field.dataType.simpleString()}) as {field.name}"
        for field in payload
    ]
    numbered = outbox.selectExpr("run_id", _ID, *_HEAD, "source", "source_seq", *body)
    if latency is None:
        numbered = numbered.hint("shuffle_hash").join(link, ["run_id", "src", "dst"], "left")
        wait = "latency_rounds"
    else:
        wait = f"cast({latency} as bigint)"
    return numbered.selectExpr(
        "run_id", "message_id", *_HEAD, f"sent_round + {wait} as due_round", f"{wait} as wait", "source", "source_seq",
        *(field.name for field in payload),
    )  # fmt: skip


def due_messages(in_flight: DataFrame, step: int) -> DataFrame:
    """Gives the messages that are due ``step`` rounds after the last one."""
    return in_flight.where(f"wait = {step}")


def waiting_messages(in_flight: DataFrame, step: int) -> DataFrame:
    """Gives the messages that are still on their way then, with the shorter wait."""
    columns = [f"wait - {step} as wait" if name == "wait" else name for name in in_flight.columns]
    return in_flight.where(f"wait > {step}").selectExpr(*columns)


@dataclass(frozen=True)
class Traffic:
    """What is in flight, over all runs.

    Attributes:
        waits: For each kind in flight the rounds until the first of them is due.
        last_wait: Rounds until the last message is due; 0 with nothing in flight.
        n_messages: How many there are.
        n_new: How many of them were sent in the round just made.
    """

    waits: dict[str, int]
    last_wait: int
    n_messages: int
    n_new: int

    @property
    def next_wait(self) -> int | None:
        """Rounds until something is due."""
        return min(self.waits.values(), default=None)

    def due_kinds(self, step: int) -> Iterable[str]:
        """The kinds that are due after so many rounds."""
        return (kind for kind, wait in self.waits.items() if wait == step)


def traffic_facts(kinds: Sequence[str]) -> dict[str, str]:
    """Gives the SQL aggregates over messages in flight that `traffic` reads."""
    waits = {f"wait_{kind}": f"min(case when kind = '{kind}' then wait end)" for kind in kinds}
    return {
        **waits, "last_wait": "max(wait)", "n_messages": "count(1)",
        "n_new": "count_if(wait = due_round - sent_round)", "n_lost": "count_if(wait is null)",
        "n_sent": f"max(message_id % {MAX_SENT})",
    }  # fmt: skip


def traffic(facts: dict[str, int | None]) -> Traffic:
    """Reads the facts of `traffic_facts`."""
    waits = {
        name.removeprefix("wait_"): value
        for name, value in facts.items()
        if name.startswith("wait_") and value is not None
    }
    return Traffic(waits, facts.get("last_wait") or 0, facts.get("n_messages") or 0, facts.get("n_new") or 0)
