"""The tables of a store's history: grain, key and columns. They are a public contract.

Every table has ``run_id``. Rounds are integers. ``node_id`` and each column that refers to a node contain an id of
table ``node``. The Delta tables contain the column comments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as T

BIGINT: Final = T.LongType()
STRING: Final = T.StringType()
BOOLEAN: Final = T.BooleanType()
LONGS: Final = T.ArrayType(BIGINT)
STORE_FORMAT: Final = 9
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
    ("round_ms", T.DoubleType(), "duration of a round in milliseconds"),
    ("parameters", STRING, "JSON object that maps the path of a scenario key to its value, for the settings of the "
     "protocol and the keys of the grid"),
    ("engine", STRING, "engine of the run: spark, connect or local"),
    ("form", STRING, "form that executed the run: program (node programs) or dataflow (steps over all nodes)"),
    ("versions", STRING, "JSON object with the versions of the program and of its engine"),
    ("verdict", STRING, "valid: no violation, or only excused violations; invalid: a violation that is not excused; "
     "unknown: undecided, for example because the horizon ended the run early; null: the run has not ended"),
    ("within_bound", BOOLEAN, "whether the faults stayed within the protocol's fault model"),
    ("rounds", BIGINT, "number of the last round in which an event happened; the loss of a message is an event of its "
     "due round, which may follow the horizon"),
)  # fmt: skip
NODE = table(
    "node", "a node of a run", "node_id",
    ("node_id", BIGINT, "id of the node, from 0"),
    ("name", STRING, "name of the node in the scenario"),
    ("role", STRING, "role of the node: broker, server or client, or the protocol's name for it, for example "
     "supervisor"),
)  # fmt: skip
LINK = table(
    "link",
    "a link of the overlay in one direction, even if the link exists for only part of the run (see fault_event)",
    "src,dst",
    ("src", BIGINT, "sending node"),
    ("dst", BIGINT, "receiving node"),
    ("latency_rounds", BIGINT, "rounds from sending to handling, at least 1"),
)
SUBSCRIPTION = table(
    "subscription",
    "a subscription that its node issued, or that a crash lost after its node had accepted the call",
    "subscription_id",
    ("subscription_id", BIGINT, "id of the subscription in its run"),
    ("subscriber", BIGINT, "node that subscribed"),
    ("predicate", STRING, "the subscription's conjunction of comparisons"),
    (
        "issued_round",
        BIGINT,
        "round in which the node issued the subscription, which may be later than the call; if a "
        "crash lost it, round of the call",
    ),
    (
        "confirmed_round",
        BIGINT,
        "round of the confirmation; null: the call is unconfirmed, or the protocol does not confirm calls",
    ),
    ("unsubscribed_round", BIGINT, "round in which the node issued the unsubscription; null: no unsubscription"),
    (
        "ended_round",
        BIGINT,
        "round in which the unsubscription was confirmed, or, if the protocol does not confirm calls, issued; null: "
        "neither happened",
    ),
)
PREDICATE = table(
    "predicate",
    "a comparison in the predicate of a subscription",
    "subscription_id,attribute,op,number,whole,text",
    ("subscription_id", BIGINT, "id of the subscription; the scenario has it, but its node may not have issued it"),
    ("attribute", STRING, "attribute of the publication that is compared; topic: the topic of the publication"),
    (
        "op",
        STRING,
        "operator: = != < <= > >= prefix suffix contains, or filter (the right-hand side is an MQTT topic filter)",
    ),
    ("number", T.DoubleType(), "right-hand side if it is a number; null: it is a string"),
    ("whole", BIGINT, "right-hand side if it is an integer of 64 bits (exact, unlike number above 2^53); else null"),
    ("text", STRING, "right-hand side if it is a string; null: it is a number"),
)
CONTROL_CALL = table(
    "control_call",
    "a call in workload.joins or workload.calls of the scenario, even if its node was down and did not issue it",
    "node_id,source_seq",
    ("node_id", BIGINT, "calling node"),
    ("source_seq", BIGINT, "number of the call among the calls of its node, ascending from 1"),
    ("round", BIGINT, "round in which the call is due"),
    ("kind", STRING, "type of the call: join, leave, remove, steer, register or deregister"),
    ("topic", STRING, "topic argument of the call; null: the unnamed topic, or all topics"),
    ("peer", BIGINT, "node argument of the call, for joins of brokers the join point; null: no such argument"),
    ("role", STRING, "publisher or subscriber for register and deregister; else null"),
)
PUBLICATION = table(
    "publication",
    "a publication that its node issued, or that a crash lost after its node had accepted the call",
    "source,source_seq",
    ("source", BIGINT, "node that published"),
    ("source_seq", BIGINT, "number of the publication among the calls of source, ascending from 1"),
    (
        "issued_round",
        BIGINT,
        "round in which the source issued the publication, which may be later than the call; if "
        "a crash lost it, round of the call",
    ),
    ("topic", STRING, "topic; null: the publication has no topic"),
    ("content", STRING, "JSON object of the attributes and their values, without topic"),
    ("guarantee", STRING, "requested order of delivery: eventual, causal or total; null: no request"),
    ("keys", T.ArrayType(STRING), "key items of the requested order; null: no key items"),
    (
        "confirmed_round",
        BIGINT,
        "round of the confirmation; null: the call is unconfirmed, or the protocol does not confirm calls",
    ),
)
MESSAGE = table(
    "message", "a message put on a link; the row is written when the message's fate is known", "message_id",
    ("message_id", BIGINT, "id of the message in the run; ids ascend by sent_round, then src, then the order of "
     "sending"),
    ("kind", STRING, "type of the message, named as in the protocol's paper"),
    ("src", BIGINT, "sending node"),
    ("dst", BIGINT, "receiving node"),
    ("sent_round", BIGINT, "round in which the message was sent"),
    ("due_round", BIGINT, "round in which the receiver handles the message, if it is not lost"),
    ("fate", STRING, "delivered: handled by the receiver; duplicate: dropped by the receiver as a duplicate; "
     "lost_link: lost on the link; lost_crash: the receiver was down; in_flight: not lost, but due after the end of "
     "the run"),
    ("source", BIGINT, "node whose call caused the message; null: no call caused it"),
    ("source_seq", BIGINT, "number of this call among the calls of source"),
    ("body", STRING, "JSON object of the fields that are not in another column; null: no such fields"),
)  # fmt: skip
DELIVERY = table(
    "delivery", "a delivery of a publication to a subscriber", "subscriber,source,source_seq,round",
    ("subscriber", BIGINT, "node that delivered the publication to its application"),
    ("source", BIGINT, "node that published"),
    ("source_seq", BIGINT, "number of the publication among the calls of source"),
    ("round", BIGINT, "round of the delivery"),
    ("latency_rounds", BIGINT, "rounds from issued_round of the publication to the delivery"),
    ("hops", BIGINT, "number of links between the source and the subscriber on the path of the delivered copy"),
)  # fmt: skip
FAULT_EVENT = table(
    "fault_event", "a crash, a recovery or a link fault", "round,kind,node_id,src,dst",
    ("round", BIGINT, "round in which the event takes effect"),
    ("kind", STRING, "crash, recovery, pause, or the kind of a link fault in the scenario; burst: a bad period of a "
     "link begins; unlink: a link breaks and will be replaced; link: the link that replaces it begins to exist; "
     "suffix _end: the fault ends. Overlapping or consecutive faults of one kind, node and link are one fault"),
    ("node_id", BIGINT, "node of a node fault; null for link faults"),
    ("src", BIGINT, "sender of the affected messages of a link fault; null: any node"),
    ("dst", BIGINT, "receiver of the affected messages of a link fault; null: any node"),
)  # fmt: skip
NODE_STATUS = table(
    "node_status", "a change of the status of a node", "node_id,round,status",
    ("node_id", BIGINT, "the node"),
    ("round", BIGINT, "first round in which the node has the status"),
    ("status", STRING, "name of the status in the protocol's paper"),
)  # fmt: skip
ROUND_METRIC = table(
    "round_metric", "a number of messages of one type and fate that were due in one round of a run", "round,kind,fate",
    ("round", BIGINT, "round in which the messages were due"),
    ("kind", STRING, "type of the messages"),
    ("fate", STRING, "fate of the messages, as in table message"),
    ("n_messages", BIGINT, "number of messages"),
)  # fmt: skip
VIOLATION = table(
    "violation", "a violation of a guarantee", "guarantee,round,node_id,source,source_seq,detail",
    ("guarantee", STRING, "name of the violated guarantee, see `roundtable list audits`"),
    ("round", BIGINT, "round of the violation; null: the violation has no single round"),
    ("node_id", BIGINT, "node of the violation; null: the violation has no single node"),
    ("source", BIGINT, "publisher of the affected publication; null: no single publication is affected"),
    ("source_seq", BIGINT, "number of the affected publication among the calls of source"),
    ("detail", STRING, "description of the violation"),
    ("excused", BOOLEAN, "whether the faults of the run exceeded the fault model, so the violation is excused"),
)  # fmt: skip
ROUND_COMMIT = Table(
    "round_commit", "a commit of consecutive rounds of one batch of runs", ("first_run", "last_round"),
    T.StructType([
        T.StructField("first_run", BIGINT, True, {"comment": "first run of the batch"}),
        T.StructField("last_run", BIGINT, True, {"comment": "last run of the batch"}),
        T.StructField("n_later_runs", BIGINT, True, {"comment": "number of runs in the batches that start after this "
         "batch"}),
        T.StructField("first_round", BIGINT, True, {"comment": "first round that the commit contains"}),
        T.StructField("last_round", BIGINT, True, {"comment": "last round that the commit contains"}),
        T.StructField("is_final", BOOLEAN, True, {"comment": "whether all runs of the batch ended with this commit"}),
        T.StructField("versions", STRING, True, {"comment": "JSON object that maps the name of each table to its "
         "Delta version at the end of this commit"}),
    ]),
)  # fmt: skip

APPENDED: Final = (SUBSCRIPTION, PUBLICATION, MESSAGE, DELIVERY, FAULT_EVENT, NODE_STATUS, ROUND_METRIC)
HISTORY: Final = (RUN, NODE, LINK, PREDICATE, CONTROL_CALL, *APPENDED, VIOLATION, ROUND_COMMIT)


CALL_LOG = table(
    "state_call_log", "a call that its node accepted and whose history row can still change", "source,source_seq",
    ("source", BIGINT, "calling node"),
    ("source_seq", BIGINT, "number of the call among the calls of its node"),
    ("kind", STRING, "type of the call: subscribe, unsubscribe, publish, join (of the overlay), or a type in table "
     "control_call"),
    ("subscription_id", BIGINT, "id of the subscription, for subscribe and unsubscribe; else null"),
    ("issued_round", BIGINT, "round in which the node issued the call; if is_held is true, round of the call"),
    ("confirmed_round", BIGINT, "round in which the call was confirmed; null: unconfirmed"),
    ("is_held", BOOLEAN, "whether the node has accepted the call and not issued it yet"),
    ("predicate", STRING, "for subscribe the predicate, as in table subscription; else null"),
    ("topic", STRING, "for publish the topic, as in table publication; else null"),
    ("content", STRING, "for publish the content, as in table publication; else null"),
    ("guarantee", STRING, "for publish the requested order of delivery, as in table publication; else null"),
    ("keys", T.ArrayType(STRING), "for publish the key items, as in table publication; else null"),
)  # fmt: skip
