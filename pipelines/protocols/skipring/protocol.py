"""Protocol ``skipring``: the node program `udfs.skipring.program` as the engine sees it."""

from __future__ import annotations

from pipelines.contract.nodes import NodeProtocol
from pipelines.contract.round import MadeView
from pipelines.protocols.skipring.audits import AUDITS
from pipelines.protocols.skipring.publications import UNDECIDED, WAITS
from pipelines.protocols.skipring.replay import convergence, progress
from udfs.skipring.program import SkipRing

_TOPIC = {"topic": "the topic", "n_subscribers": "its subscribers that are up"}
CONVERGENCE = MadeView(
    """When was the ring of each topic legitimate, and did it stay so?
One row per run, topic and disturbance. Played again from state_configuration_change, state_database_change and
sent_message.""",
    convergence,
    {
        **_TOPIC,
        "disturbance": "number of the disturbance, from 0: the start",
        "round": "round of the disturbance",
        "cause": "start, subscribe (a subscriber comes), unsubscribe (one goes) or crash",
        "node_id": "node that came, went or crashed; null: the start",
        "n_configurations": "changes of what other nodes hold, until the next disturbance",
        "explicit_round": "round from which on the state of the nodes is that of the skip ring; null: not before the"
        " next disturbance, or the end",
        "clean_round": "round from which on nothing in flight contradicts it either (rule K9); null: as before",
        "changed_round": "first round after clean_round in which an explicit edge changed: with closure there is none",
        "problem": "why the last round before the next disturbance, or the end, was not legitimate; null: it was",
        "is_last": "whether it is the last disturbance of the topic",
    },
)
PROGRESS = MadeView(
    """How many labels are wrong in each round, how many subscribers are recorded, and what is the diameter?
One row per run, topic and round in which explicit state changed; between two rows all stays as it is. Edges are those
between subscribers, without directions.""",
    progress,
    {
        **_TOPIC,
        "round": "round in which explicit state changed",
        "n_recorded": "those of them that the database has",
        "n_wrong_labels": "those whose label is none, or not the one in the database",
        "max_degree": "most neighbours that one of them has",
        "n_edges": "edges",
        "diameter": "most hops between two of them; null: some do not reach each other, or there are more than 500 of"
        " them and some labels are wrong",
    },
)

PROTOCOL = NodeProtocol(
    SkipRing,
    audits=AUDITS,
    undecided=UNDECIDED,
    waits={"trie_node": WAITS},
    views={
        "convergence": CONVERGENCE,
        "convergence_round": PROGRESS,
    },
)
