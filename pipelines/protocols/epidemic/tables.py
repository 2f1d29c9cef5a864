"""State and messages of protocol ``epidemic``: which rows each dispatcher holds, named as in the paper."""

from __future__ import annotations

from pyspark.sql import DataFrame, types as T

from pipelines.contract.round import State, grown
from pipelines.tables import BIGINT, BOOLEAN, INT, LONGS, STRING, table

KINDS = ("SUB", "UNSUB", "EVENT", "GOSSIP", "REQUEST", "REPLY")
NODE = ["run_id", "node_id"]
EVENT = ["run_id", "source", "source_seq"]
COPY = ["run_id", "node_id", "source", "source_seq"]
LOSS = ["run_id", "node_id", "source", "pattern_id", "number"]

TAGS = T.ArrayType(T.StructType([T.StructField("pattern_id", BIGINT), T.StructField("number", BIGINT)]))
DIGEST = T.ArrayType(T.StructType([T.StructField(name, BIGINT) for name in ("source", "pattern_id", "number")]))

PAYLOAD = T.StructType(
    [
        T.StructField("hops", INT),
        T.StructField("issued_round", BIGINT),
        T.StructField("pattern_id", BIGINT),
        T.StructField("matches", LONGS),
        T.StructField("tags", TAGS),
        T.StructField("path", LONGS),
        T.StructField("style", STRING),
        T.StructField("initiator", BIGINT),
        T.StructField("digest", DIGEST),
    ]
)
"""``matches`` are the patterns that an event's content satisfies, ``tags`` those that its source knew, with their
counters. ``path``: of an EVENT the dispatchers that it went through, of a GOSSIP to a publisher those still ahead.
``digest``: what a gossip message or a request lists; the number of an entry without a pattern is ``source_seq``."""

_IDENTIFIER = "array_join(transform(tags, t -> concat(':P', t.pattern_id, '-', t.number)), '')"
BODY = f"""case
  when kind = 'EVENT' then to_json(named_struct('hops', hops, 'id', concat(source, {_IDENTIFIER}), 'path', path))
  when kind = 'REPLY' then to_json(named_struct('hops', hops, 'id', concat(source, {_IDENTIFIER})))
  when kind = 'GOSSIP' then to_json(named_struct(
    'style', style, 'initiator', initiator, 'pattern_id', pattern_id, 'path', path, 'digest', digest))
  when kind = 'REQUEST' then to_json(named_struct('digest', digest))
  else to_json(named_struct('pattern_id', pattern_id))
end"""


def _once(increments: DataFrame) -> DataFrame:
    """Folds copies of an event at a dispatcher into one row."""
    folded = increments.groupBy(COPY).agg({"is_routed": "max"})
    return folded.toDF(*RECEIVED.columns)


PATTERN = table(
    "pattern", "a subscription of the scenario and its event pattern", "node_id,subscription_id",
    ("node_id", BIGINT, "the subscriber"),
    ("subscription_id", BIGINT, "the subscription"),
    ("pattern_id", BIGINT, "its pattern: the lowest of the subscriptions with the same predicate"),
    ("is_initial", BOOLEAN, "whether it is issued before the first publication of the run"),
)  # fmt: skip
CLIENT = table(
    "client", "a subscription that stands at the dispatcher it was issued at", "node_id,subscription_id",
    ("node_id", BIGINT, "the dispatcher"),
    ("subscription_id", BIGINT, "the subscription"),
    ("pattern_id", BIGINT, "its pattern"),
    ("is_initial", BOOLEAN, "whether it was issued before the first publication of the run"),
)  # fmt: skip
ROUTING_ENTRY = table(
    "routing_entry", "an entry of a dispatcher's subscription table", "node_id,pattern_id,next_hop",
    ("node_id", BIGINT, "the dispatcher"),
    ("pattern_id", BIGINT, "the pattern"),
    ("next_hop", BIGINT, "neighbour towards subscribers; the dispatcher itself where its own clients subscribe"),
)  # fmt: skip
TAG = table(
    "tag", "a pattern that an event matches, with its counter: a part of the event's identifier",
    "node_id,source_seq,pattern_id",
    ("node_id", BIGINT, "the source"),
    ("source_seq", BIGINT, "number of the event among the source's calls"),
    ("pattern_id", BIGINT, "the pattern"),
    ("number", BIGINT, "the source's counter for the pattern; null where the source did not know the pattern"),
    ("issued_round", BIGINT, "round of the publication"),
)  # fmt: skip
COUNTER = table(
    "counter", "a source's counter for a pattern", "node_id,pattern_id",
    ("node_id", BIGINT, "the source"),
    ("pattern_id", BIGINT, "the pattern"),
    ("number", BIGINT, "events that it has published for the pattern"),
)  # fmt: skip
RECEIVED = table(
    "received", "an event that a dispatcher has had", "node_id,source,source_seq",
    ("node_id", BIGINT, "the dispatcher"),
    ("source", BIGINT, "the event's source"),
    ("source_seq", BIGINT, "its number"),
    ("is_routed", BOOLEAN, "whether it came over the tree (or was published here), not only as a reply"),
)  # fmt: skip
EXPECTED = table(
    "expected", "what a dispatcher expects next of a source for a local pattern", "node_id,source,pattern_id",
    ("node_id", BIGINT, "the dispatcher"),
    ("source", BIGINT, "the source"),
    ("pattern_id", BIGINT, "the pattern"),
    ("next_number", BIGINT, "one more than the highest counter seen"),
)  # fmt: skip
CACHE = table(
    "cache", "an event in a dispatcher's Cache", "node_id,source,source_seq",
    ("node_id", BIGINT, "the dispatcher"),
    ("source", BIGINT, "the event's source"),
    ("source_seq", BIGINT, "its number"),
    ("position", BIGINT, "how many events the dispatcher had cached with this one, ascending"),
    ("is_own", BOOLEAN, "whether the dispatcher published it or was subscribed to it"),
    ("cached_round", BIGINT, "round in which it was cached"),
    ("hops", INT, "links it had travelled over"),
    ("issued_round", BIGINT, "round of the publication"),
)  # fmt: skip
LOST = table(
    "lost", "an entry of a dispatcher's LostBuffer", "node_id,source,pattern_id,number",
    ("node_id", BIGINT, "the dispatcher"),
    ("source", BIGINT, "source of the lost event"),
    ("pattern_id", BIGINT, "the local pattern for which it is missing"),
    ("number", BIGINT, "its counter for the pattern"),
    ("detected_round", BIGINT, "round in which the loss was detected"),
    ("expires_round", BIGINT, "round in which it is given up"),
)  # fmt: skip
ROUTE = table(
    "route", "an entry of a dispatcher's buffer Routes", "node_id,source",
    ("node_id", BIGINT, "the dispatcher"),
    ("source", BIGINT, "the source"),
    ("source_seq", BIGINT, "the newest event of the source that came over the tree"),
    ("path", LONGS, "the dispatchers from here back to the source, which is the last"),
)  # fmt: skip
DISPATCHER = table(
    "dispatcher", "a dispatcher's gossip timer and the number of its next cache entry", "node_id",
    ("node_id", BIGINT, "the dispatcher"),
    ("interval_rounds", BIGINT, "its gossip interval"),
    ("next_round", BIGINT, "round of a gossip round; the others are whole intervals later"),
    ("push_end_round", BIGINT, "round before which it has something to push; null: nothing"),
    ("lost_end_round", BIGINT, "round before which it has something to pull; null: nothing"),
    ("n_cached", BIGINT, "events that it has cached"),
    ("is_busy", BOOLEAN, "whether it saw losses since its last gossip round: its own, or others' requests"),
)  # fmt: skip

_NEXT = (
    "min(case when next_round < greatest(coalesce(push_end_round, 0), coalesce(lost_end_round, 0)) then next_round end)"
)
STATES = (
    State(PATTERN, is_durable=True),
    State(CLIENT, is_durable=True),
    State(ROUTING_ENTRY),
    State(TAG, compact=grown, is_durable=True),
    State(COUNTER, is_durable=True),
    State(RECEIVED, compact=_once, is_durable=True),
    State(EXPECTED, is_durable=True),
    State(CACHE),
    State(LOST),
    State(ROUTE),
    State(DISPATCHER, facts={"next_gossip": _NEXT}, wake=_NEXT, is_durable=True),
)
