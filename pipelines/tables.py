"""The history tables: grain, key and columns of each. They are the public contract.

Every table has ``run_id``; rounds are whole numbers; ``node_id`` and everything that names a node is an id of table
``node``. Column comments end up in the Delta tables.
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
"""Raised when a table or a column, of protocols too, gets another name or meaning: older stores are refused then."""


@dataclass(frozen=True)
class Table:
    """A table of the store.

    Attributes:
        name: Singular name.
        grain: What one row is.
        key: Columns that identify a row.
        schema: Columns with their comments.
    """

    name: str
    grain: str
    key: tuple[str, ...]
    schema: T.StructType

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.schema.names)


def table(name: str, grain: str, key: str, *columns: tuple[str, T.DataType, str]) -> Table:
    """Makes a `Table`; ``key`` is a comma-separated list and ``run_id`` leads both the key and the columns."""
    fields = [T.StructField("run_id", BIGINT, True, {"comment": "the run, see table run"})]
    fields += [T.StructField(column, kind, True, {"comment": comment}) for column, kind, comment in columns]
    return Table(name, grain, ("run_id", *(part for part in key.split(",") if part)), T.StructType(fields))


RUN = table(
    "run",
    "one run of the scenario",
    "",
    ("scenario", STRING, "name of the scenario"),
    ("protocol", STRING, "name of the protocol"),
    ("seed", BIGINT, "seed of every random draw of the run"),
    ("round_ms", T.DoubleType(), "milliseconds of a round; null: not known"),
    ("parameters", STRING, "JSON object: settings of the protocol and values of the grid, path to value"),
    ("engine", STRING, "engine that computed it: spark, sail or connect"),
    ("form", STRING, "form that played it: program (a node program) or dataflow (steps over all nodes)"),
    ("versions", STRING, "JSON: versions of the program and its engine"),
    ("verdict", STRING, "valid, invalid or unknown; null: the run has not ended"),
    ("within_bound", BOOLEAN, "whether the faults stayed within the protocol's fault model"),
    ("rounds", BIGINT, "last round in which anything happened"),
)
NODE = table(
    "node",
    "a node of a run",
    "node_id",
    ("node_id", BIGINT, "id of the node, from 0"),
    ("name", STRING, "name in the scenario"),
    ("role", STRING, "what it is: broker, or a kind of client"),
)
LINK = table(
    "link",
    "a directed overlay link of a run, also one that replaces another later: see fault_event",
    "src,dst",
    ("src", BIGINT, "node that sends"),
    ("dst", BIGINT, "node that receives"),
    ("latency_rounds", BIGINT, "rounds from sending to handling, at least 1"),
)
SUBSCRIPTION = table(
    "subscription",
    "a subscription that was issued, or accepted and lost in a crash",
    "subscription_id",
    ("subscription_id", BIGINT, "id of the subscription in its run"),
    ("subscriber", BIGINT, "node that subscribed"),
    ("predicate", STRING, "the conjunction it asks for"),
    ("issued_round", BIGINT, "round in which the node issued it; of the call, where it lost that in a crash before"),
    ("confirmed_round", BIGINT, "round in which the protocol confirmed it; null: never, or it does not confirm"),
    ("unsubscribed_round", BIGINT, "round in which the node issued the unsubscription; null: it stayed"),
    ("ended_round", BIGINT, "round in which the unsubscription was confirmed (issued, where nothing is confirmed)"),
)
PREDICATE = table(
    "predicate",
    "a comparison of a subscription's predicate",
    "subscription_id,attribute,op,number,whole,text",
    ("subscription_id", BIGINT, "the subscription; it is in the scenario, whether it was issued or not"),
    ("attribute", STRING, "attribute of a publication; topic is the publication's topic"),
    ("op", STRING, "= != < <= > >= prefix suffix contains, or filter: a topic filter of MQTT"),
    ("number", T.DoubleType(), "value compared with, where it is a number"),
    ("whole", BIGINT, "the same, where it is a whole number of 64 bits: doubles are not exact beyond 2^53"),
    ("text", STRING, "value to compare with, if it is a string"),
)
CONTROL_CALL = table(
    "control_call",
    "a call that is neither about a subscription nor a publication, nor a join of the overlay",
    "node_id,source_seq",
    ("node_id", BIGINT, "node that calls; it is in the scenario, whether it was issued or not"),
    ("source_seq", BIGINT, "number among the calls of its node, ascending from 1"),
    ("round", BIGINT, "round in which it is due"),
    ("kind", STRING, "join, leave, remove, steer, register, deregister"),
    ("topic", STRING, "topic that it is about; null: the one without a name, or all"),
    ("peer", BIGINT, "other node that it is about; null: none"),
    ("role", STRING, "register, deregister: publisher or subscriber; else null"),
)
PUBLICATION = table(
    "publication",
    "a publication that was issued, or accepted and lost in a crash",
    "source,source_seq",
    ("source", BIGINT, "node that published"),
    ("source_seq", BIGINT, "number among the source's calls, ascending from 1"),
    ("issued_round", BIGINT, "round in which it was issued; of the call, where the source lost it in a crash before"),
    ("topic", STRING, "topic, null where it has none"),
    ("content", STRING, "JSON object of the other attributes"),
    ("guarantee", STRING, "order of delivery asked for: eventual, causal or total; null: none"),
    ("keys", T.ArrayType(STRING), "key items that the order is about; null: none"),
    ("confirmed_round", BIGINT, "round in which the source got its confirmation; null: never, or it does not confirm"),
)
MESSAGE = table(
    "message",
    "a message put on a link, written when its fate is known",
    "message_id",
    ("message_id", BIGINT, "id in the run; ascending in (sent_round, src, order of sending)"),
    ("kind", STRING, "kind, named as in the protocol's paper"),
    ("src", BIGINT, "node that sent it"),
    ("dst", BIGINT, "node it was sent to"),
    ("sent_round", BIGINT, "round of sending"),
    ("due_round", BIGINT, "round in which it is handled"),
    ("fate", STRING, "delivered, duplicate, lost_link, lost_crash, in_flight"),
    ("source", BIGINT, "node whose call the message serves; null for none"),
    ("source_seq", BIGINT, "number of that call at its source"),
    ("body", STRING, "JSON object of what else it carries; null where it carries nothing else"),
)
DELIVERY = table(
    "delivery",
    "a delivery of a publication to a subscriber",
    "subscriber,source,source_seq,round",
    ("subscriber", BIGINT, "node that delivered it to its application"),
    ("source", BIGINT, "node that published"),
    ("source_seq", BIGINT, "number of the publication at its source"),
    ("round", BIGINT, "round of the delivery"),
    ("latency_rounds", BIGINT, "rounds since the publication was issued"),
    ("hops", BIGINT, "links it travelled over"),
)
FAULT_EVENT = table(
    "fault_event",
    "a crash, a recovery or a link fault",
    "round,kind,node_id,src,dst",
    ("round", BIGINT, "round in which it takes effect"),
    (
        "kind",
        STRING,
        "crash, recovery, pause, or a link fault as in scenarios; burst: a link is bad; with _end: the fault ends;"
        " unlink: another link replaces it; link: it replaces another",
    ),
    ("node_id", BIGINT, "the node, for faults of nodes"),
    ("src", BIGINT, "faults of links: sender of the messages concerned; null: any"),
    ("dst", BIGINT, "faults of links: their receiver; null: any"),
)
NODE_STATUS = table(
    "node_status",
    "a change of a node's state",
    "node_id,round,status",
    ("node_id", BIGINT, "the node"),
    ("round", BIGINT, "round from which it is in the state"),
    ("status", STRING, "the state, named as in the protocol's paper"),
)
ROUND_METRIC = table(
    "round_metric",
    "a kind and fate of messages due in a round of a run",
    "round,kind,fate",
    ("round", BIGINT, "the round in which they were due"),
    ("kind", STRING, "kind of message"),
    ("fate", STRING, "their fate"),
    ("n_messages", BIGINT, "how many there were"),
)
VIOLATION = table(
    "violation",
    "a broken guarantee",
    "guarantee,round,node_id,source,source_seq,detail",
    ("guarantee", STRING, "name of the guarantee, see `roundtable list audits`"),
    ("round", BIGINT, "round in which it was broken, null where it has none"),
    ("node_id", BIGINT, "node at which it was broken"),
    ("source", BIGINT, "publisher concerned"),
    ("source_seq", BIGINT, "its publication"),
    ("detail", STRING, "what is wrong, in words"),
    ("excused", BOOLEAN, "true where the faults of the run went beyond what the protocol promises to bear"),
)
ROUND_COMMIT = Table(
    "round_commit", "a commit of a batch of runs", ("first_run", "last_round"),
    T.StructType([
        T.StructField("first_run", BIGINT, True, {"comment": "first run of the batch"}),
        T.StructField("last_run", BIGINT, True, {"comment": "last run of the batch"}),
        T.StructField("n_later_runs", BIGINT, True, {"comment": "runs of the batches that come after it"}),
        T.StructField("first_round", BIGINT, True, {"comment": "first round that the commit holds"}),
        T.StructField("last_round", BIGINT, True, {"comment": "last round that the commit holds"}),
        T.StructField("is_final", BOOLEAN, True, {"comment": "whether the runs of the batch ended with it"}),
        T.StructField("versions", STRING, True, {"comment": "JSON: table name to the Delta version of this commit"}),
    ]),
)  # fmt: skip

APPENDED: Final = (SUBSCRIPTION, PUBLICATION, MESSAGE, DELIVERY, FAULT_EVENT, NODE_STATUS, ROUND_METRIC)
HISTORY: Final = (RUN, NODE, LINK, PREDICATE, CONTROL_CALL, *APPENDED, VIOLATION, ROUND_COMMIT)


CALL_LOG = table(
    "state_call_log", "a call that its node accepted and that is not final", "source,source_seq",
    ("source", BIGINT, "node that made the call"),
    ("source_seq", BIGINT, "number of the call at its node"),
    ("kind", STRING, "subscribe, unsubscribe, publish, join, or another call: see table control_call"),
    ("subscription_id", BIGINT, "subscribe, unsubscribe: the subscription"),
    ("issued_round", BIGINT, "round in which it was issued; held back: of the call"),
    ("confirmed_round", BIGINT, "round in which it was confirmed"),
    ("is_held", BOOLEAN, "whether its node holds it back"),
)  # fmt: skip
