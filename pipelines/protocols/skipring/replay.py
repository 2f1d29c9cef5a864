"""Views and audits of a store that replay the history of each topic with `udfs.skipring.replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import Evidence, arrow_rows, sql_files
from pipelines.contract.protocol import Ask, ComputedView
from udfs.skipring import replay
from udfs.skipring.legitimate import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KINDS = ", ".join(f"'{kind}'" for kind in KINDS)
HISTORY = sql_files("pipelines.protocols.skipring")["history"].format(kinds=_KINDS)


def convergence(ask: Ask) -> DataFrame:
    """Returns the rounds in which topics became legitimate after each disturbance (rule K19).

    Returns:
        One row per run, topic and disturbance: columns `replay.CONVERGENCE`, and ``name``, the name of the node.
    """
    columns = [name for name, _ in replay.CONVERGENCE]
    columns.insert(columns.index("node_id") + 1, "name")
    named = ask("select run_id, node_id, name from node")
    played = arrow_rows(ask(HISTORY), replay.convergence, replay.CONVERGENCE)
    return played.join(named, ["run_id", "node_id"], "left").select(columns)


def progress(ask: Ask) -> DataFrame:
    """Returns the measures of topics (`replay.PROGRESS`): a row for each topic and round that changed its state."""
    return arrow_rows(ask(HISTORY), replay.progress, replay.PROGRESS)


def broken_topic(evidence: Evidence) -> DataFrame:
    """Returns the violations of guarantees by topics (sections 1.1 and 2.1, rule K9), with columns `replay.BROKEN`.

    Audits read this relation.
    """
    return arrow_rows(evidence.reader.sql(HISTORY), replay.violations, replay.BROKEN)


_TOPIC = {"topic": "the topic", "n_subscribers": "number of subscribers of the topic that are up"}
_CONVERGENCE = ComputedView(
    """When was the ring of each topic legitimate, and did it stay legitimate?
One row per run, topic and disturbance (protocol skipring). A disturbance is the start of the run, a subscription, an
unsubscription or a crash. The view replays the tables state_configuration_change, state_database_change and
sent_message.""",
    convergence,
    {
        **_TOPIC,
        "disturbance": "index of the disturbance of the topic, from 0: the start of the run",
        "round": "round of the disturbance",
        "cause": "event that disturbs the ring: start (of the run), subscribe, unsubscribe, or crash",
        "node_id": "node that subscribed, unsubscribed or crashed; null: the cause is start",
        "n_configurations": "number of changes of explicit state (rule K18) until the next disturbance, without those "
        "at node_id",
        "explicit_round": "first round from which the explicit state of the nodes is that of the skip ring; null: no "
        "such round before the next disturbance or the end",
        "clean_round": "first round from which, in addition, no message in flight contradicts this state (rule K9); "
        "null: as for explicit_round",
        "changed_round": "first round after clean_round in which explicit state changed; null: it did not change "
        "(closure)",
        "problem": "reason why the state before the next disturbance, or at the end, is not legitimate; null: it is "
        "legitimate",
        "is_last": "whether the disturbance is the last one of the topic",
    },
)
_PROGRESS = ComputedView(
    """How many labels are wrong in each round, how many subscribers are in the database, and what is the diameter?
One row per run, topic and round in which explicit state changed (protocol skipring). The values do not change until
the round of the next row.""",
    progress,
    {
        **_TOPIC,
        "round": "round in which explicit state changed",
        "n_recorded": "number of subscribers in the database of the supervisor",
        "n_wrong_labels": "number of subscribers that have no label, or a label that differs from their label in the "
        "database",
        "max_degree": "maximum number of neighbours of a subscriber",
        "n_edges": "number of undirected edges between subscribers",
        "diameter": "maximum number of hops between two subscribers; null: two subscribers are not connected, or "
        "the topic has more than 500 subscribers and a wrong label",
    },
)
VIEWS = {"convergence": _CONVERGENCE, "convergence_round": _PROGRESS}
