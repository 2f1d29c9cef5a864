"""The tables of a store's history: grain, key and columns. They are a public contract.

Every table has ``run_id``. Rounds are integers. ``node_id`` and each column that refers to a node contain an id of
table ``node``. The Delta tables contain the column comments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as T

BIGINT: Final = T.LongType()
INT: Final = T.IntegerType()
STRING: Final = T.StringType()
BOOLEAN: Final = T.BooleanType()
LONGS: Final = T.ArrayType(BIGINT)
STORE_FORMAT: Final = 6
"""Version of the store format.

It is incremented if a table or column changes its name or meaning, including tables of a protocol."""


@dataclass(frozen=True)
class Table:
    """A table of the store.

    Attributes:
        name: Name in the singular.
        grain: The meaning of one row.
        key: Columns that identify a row.
        schema: Columns with their comments.
    """

    name: str
    grain: str
    key: tuple[str, ...]
    schema: T.StructType

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in schema order."""
        return list(self.schema.names)


def table(name: str, grain: str, key: str, *columns: tuple[str, T.DataType, str]) -> Table:
    """Returns a `Table` with ``columns`` and the comma-separated key columns ``key``.

    The function adds ``run_id`` as the first column and as the first column of the key.
    """
    fields = [T.StructField("run_id", BIGINT, True, {"comment": "the run, see table run"})]
    fields += [T.StructField(column, kind, True, {"comment": comment}) for column, kind, comment in columns]
    return Table(name, grain, ("run_id", *(part for part in key.split(",") if part)), T.StructType(fields))


RUN = table(
    "run", "one run of the scenario", "",
    ("scenario", STRING, "name of the scenario"),
    ("protocol", STRING, "name of the protocol"),
    ("seed", BIGINT, "seed of every random draw of the run"),
    ("round_ms", T.DoubleType(), "duration of a round in milliseconds; null: unknown"),
    ("parameters", STRING, "JSON object that maps paths to values: settings of the protocol and values of the grid"),
    ("engine", STRING, "engine of the run: spark, connect or local"),
    ("form", STRING, "form that played the run: program (node programs) or dataflow (steps over all nodes)"),
    ("versions", STRING, "JSON: versions of the program and its engine"),
    ("verdict", STRING, "valid, invalid or unknown; null: the run has not ended"),
    ("within_bound", BOOLEAN, "whether the faults stayed within the protocol's fault model"),
    ("rounds", BIGINT, "last round with an event"),
)  # fmt: skip
NODE = table(
    "node", "a node of a run", "node_id",
    ("node_id", BIGINT, "id of the node, from 0"),
    ("name", STRING, "name of the node in the scenario"),
    ("role", STRING, "role of the node: broker, server, or a type of client"),
)  # fmt: skip
LINK = table(
    "link",
    "a directed overlay link of a run, including links that replace other links during the run (see fault_event)",
    "src,dst",
    ("src", BIGINT, "sending node"),
    ("dst", BIGINT, "receiving node"),
    ("latency_rounds", BIGINT, "rounds from sending to handling, at least 1"),
)
SUBSCRIPTION = table(
    "subscription",
    "a subscription that its node issued, or that its node accepted and a crash lost",
    "subscription_id",
    ("subscription_id", BIGINT, "id of the subscription in its run"),
    ("subscriber", BIGINT, "node that subscribed"),
    ("predicate", STRING, "the subscription's conjunction of comparisons"),
    ("issued_round", BIGINT, "round in which the node issued the subscription; if a crash lost it, round of the call"),
    ("confirmed_round", BIGINT, "round of the confirmation; null: unconfirmed, or the protocol does not confirm"),
    ("unsubscribed_round", BIGINT, "round in which the node issued the unsubscription; null: no unsubscription"),
    (
        "ended_round",
        BIGINT,
        "round in which the unsubscription was confirmed; if the protocol does not confirm it, round of its issue",
    ),
)
PREDICATE = table(
    "predicate",
    "a comparison in the predicate of a subscription",
    "subscription_id,attribute,op,number,whole,text",
    ("subscription_id", BIGINT, "a subscription of the scenario, issued or not"),
    ("attribute", STRING, "attribute of a publication; topic is the publication's topic"),
    ("op", STRING, "= != < <= > >= prefix suffix contains, or filter: a topic filter of MQTT"),
    ("number", T.DoubleType(), "right-hand side if it is a number"),
    ("whole", BIGINT, "right-hand side if it is an integer of 64 bits; doubles are exact only up to 2^53"),
    ("text", STRING, "right-hand side if it is a string"),
)
CONTROL_CALL = table(
    "control_call",
    "a call of the scenario, issued or not, other than subscriptions, publications and joins of the overlay",
    "node_id,source_seq",
    ("node_id", BIGINT, "calling node"),
    ("source_seq", BIGINT, "number among the calls of its node, ascending from 1"),
    ("round", BIGINT, "round in which the call is due"),
    ("kind", STRING, "join, leave, remove, steer, register, deregister"),
    ("topic", STRING, "topic argument of the call; null: the unnamed topic, or all topics"),
    ("peer", BIGINT, "node argument of the call; null: no such argument"),
    ("role", STRING, "publisher or subscriber for register and deregister; else null"),
)
PUBLICATION = table(
    "publication",
    "a publication that its node issued, or that its node accepted and a crash lost",
    "source,source_seq",
    ("source", BIGINT, "node that published"),
    ("source_seq", BIGINT, "number among the source's calls, ascending from 1"),
    ("issued_round", BIGINT, "round in which the source issued the publication; if a crash lost it, round of the call"),
    ("topic", STRING, "topic; null: the publication has no topic"),
    ("content", STRING, "JSON object of the attributes except topic"),
    ("guarantee", STRING, "requested order of delivery: eventual, causal or total; null: no request"),
    ("keys", T.ArrayType(STRING), "key items of the requested order; null: no key items"),
    ("confirmed_round", BIGINT, "round of the confirmation; null: unconfirmed, or the protocol does not confirm"),
)
MESSAGE = table(
    "message", "a message put on a link, written when its fate is known", "message_id",
    ("message_id", BIGINT, "id in the run; ascending in (sent_round, src, order of sending)"),
    ("kind", STRING, "type of the message, named as in the protocol's paper"),
    ("src", BIGINT, "sending node"),
    ("dst", BIGINT, "receiving node"),
    ("sent_round", BIGINT, "round in which the message was sent"),
    ("due_round", BIGINT, "round in which the message is handled"),
    ("fate", STRING, "delivered, duplicate, lost_link, lost_crash, in_flight"),
    ("source", BIGINT, "node whose call the message serves; null: the message serves no call"),
    ("source_seq", BIGINT, "number of that call among the calls of source"),
    ("body", STRING, "JSON object of the fields that no other column has; null: no further fields"),
)  # fmt: skip
DELIVERY = table(
    "delivery", "a delivery of a publication to a subscriber", "subscriber,source,source_seq,round",
    ("subscriber", BIGINT, "node that delivered the publication to its application"),
    ("source", BIGINT, "node that published"),
    ("source_seq", BIGINT, "number of the publication at its source"),
    ("round", BIGINT, "round of the delivery"),
    ("latency_rounds", BIGINT, "rounds since the publication was issued"),
    ("hops", BIGINT, "number of links on the publication's path"),
)  # fmt: skip
FAULT_EVENT = table(
    "fault_event", "a crash, a recovery or a link fault", "round,kind,node_id,src,dst",
    ("round", BIGINT, "round in which the event takes effect"),
    ("kind", STRING, "crash, recovery, pause, or a type of link fault as in scenarios; burst: a link becomes bad;"
     " unlink: a link is replaced by another; link: a link that replaces another; suffix _end: the fault ends;"
     " faults of one kind, node and link that overlap or touch have one row for the start and one for the end"),
    ("node_id", BIGINT, "node of a node fault; null for link faults"),
    ("src", BIGINT, "sender of the affected messages of a link fault; null: any node"),
    ("dst", BIGINT, "receiver of the affected messages of a link fault; null: any node"),
)  # fmt: skip
NODE_STATUS = table(
    "node_status", "a change of a node's state", "node_id,round,status",
    ("node_id", BIGINT, "the node"),
    ("round", BIGINT, "round from which the node is in the state"),
    ("status", STRING, "state, named as in the protocol's paper"),
)  # fmt: skip
ROUND_METRIC = table(
    "round_metric", "a combination of type and fate of the messages due in a round of a run", "round,kind,fate",
    ("round", BIGINT, "round in which the messages were due"),
    ("kind", STRING, "type of the messages"),
    ("fate", STRING, "fate of the messages"),
    ("n_messages", BIGINT, "number of the messages"),
)  # fmt: skip
VIOLATION = table(
    "violation", "a broken guarantee", "guarantee,round,node_id,source,source_seq,detail",
    ("guarantee", STRING, "name of the guarantee, see `roundtable list audits`"),
    ("round", BIGINT, "round of the violation; null: no single round"),
    ("node_id", BIGINT, "node of the violation"),
    ("source", BIGINT, "publisher of the affected publication"),
    ("source_seq", BIGINT, "number of the affected publication among the calls of source"),
    ("detail", STRING, "description of the violation"),
    ("excused", BOOLEAN, "whether the faults of the run exceeded the fault model, so the violation is excused"),
)  # fmt: skip
ROUND_COMMIT = Table(
    "round_commit", "a commit of a batch of runs", ("first_run", "last_round"),
    T.StructType([
        T.StructField("first_run", BIGINT, True, {"comment": "first run of the batch"}),
        T.StructField("last_run", BIGINT, True, {"comment": "last run of the batch"}),
        T.StructField("n_later_runs", BIGINT, True, {"comment": "number of runs in all later batches"}),
        T.StructField("first_round", BIGINT, True, {"comment": "first round of the commit"}),
        T.StructField("last_round", BIGINT, True, {"comment": "last round of the commit"}),
        T.StructField("is_final", BOOLEAN, True, {"comment": "whether the runs of the batch ended with the commit"}),
        T.StructField("versions", STRING, True, {"comment": "JSON: table name → Delta version at this commit"}),
    ]),
)  # fmt: skip

APPENDED: Final = (SUBSCRIPTION, PUBLICATION, MESSAGE, DELIVERY, FAULT_EVENT, NODE_STATUS, ROUND_METRIC)
HISTORY: Final = (RUN, NODE, LINK, PREDICATE, CONTROL_CALL, *APPENDED, VIOLATION, ROUND_COMMIT)


CALL_LOG = table(
    "state_call_log", "a call that its node accepted and that is not final", "source,source_seq",
    ("source", BIGINT, "calling node"),
    ("source_seq", BIGINT, "number among the calls of its node"),
    ("kind", STRING, "subscribe, unsubscribe, publish, join, or another call: see table control_call"),
    ("subscription_id", BIGINT, "the subscription of a subscribe or unsubscribe call"),
    ("issued_round", BIGINT, "round in which the call was issued; for a delayed call, the round of the call"),
    ("confirmed_round", BIGINT, "round in which the call was confirmed"),
    ("is_held", BOOLEAN, "whether the node delays the call"),
)  # fmt: skip
