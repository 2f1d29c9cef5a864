"""Protocol ``skipring``: the node program `udfs.skipring.program` as the engine sees it."""

from __future__ import annotations

from pipelines.contract.nodes import NodeProtocol
from pipelines.contract.round import MadeView
from pipelines.protocols.skipring.audits import AUDITS
from pipelines.protocols.skipring.publications import UNDECIDED, WAITS
from pipelines.protocols.skipring.replay import convergence, progress
from udfs.skipring.program import SkipRing

CONVERGENCE = """When was the ring of each topic legitimate, and did it stay so?
One row per run, topic and disturbance: its start, a subscriber that comes (subscribe) or goes (unsubscribe), or a
crash, in round. From explicit_round on the state of the nodes is that of the skip ring, from clean_round on nothing in
flight contradicts it either (rule K9); null: that was not before the next disturbance, or the end. changed_round is the
first round after clean_round in which an explicit edge changed: with closure there is none. problem says why the last
round before the next disturbance was not legitimate. n_configurations counts changes of what other nodes hold.
Played again from state_configuration_change, state_database_change and sent_message."""
PROGRESS = """How many labels are wrong in each round, and which share of the subscribers is recorded?
One row per run, topic and round in which explicit state changed; between two rows all stays as it is. A label is wrong
that is none, or not the one in the database; max_degree is the most neighbours that a subscriber has."""

PROTOCOL = NodeProtocol(
    SkipRing,
    audits=AUDITS,
    undecided=UNDECIDED,
    waits={"trie_node": WAITS},
    views={
        "convergence": MadeView(CONVERGENCE, convergence),
        "convergence_round": MadeView(PROGRESS, progress),
    },
)
