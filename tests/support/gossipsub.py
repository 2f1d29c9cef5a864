"""Runs of protocol gossipsub in which tests plant violations, and changes of their tables.

Nodes A to G have ids 0 to 6. Heartbeats are 10 rounds apart.
"""

from __future__ import annotations

import json

from pipelines.testing import Change, replaced, scenario
from support import cases
from support.cases import hunted, messages

A, B, C, D, E, F, G = range(7)

RUNS = {
    # All nodes are relays. A publisher floods.
    "flood": hunted("gossipsub"),
    # A, B, D and E join in round 0, G in round 20, C in round 40. C leaves in round 130 and joins in round 138.
    # E leaves in round 110 and joins in round 132. G leaves in round 250, B crashes in round 300. F publishes to its
    # fanout.
    "members": hunted("gossipsub_members", {"kind": "crash", "node": "B", "round": 300}),
    # F has 5 neighbours, and at most 2 in its mesh.
    "wide": hunted("gossipsub_wide"),
    # A is the center of a star and gossips to one neighbour at each heartbeat. There are no meshes.
    "star": hunted("gossipsub_draws"),
    # The same run, but neighbours have the publications before the gossip.
    "flooded star": hunted("gossipsub_draws", flood_publish=True),
    # A run within the bound.
    "ring": scenario(
        protocol={"name": "gossipsub", "heartbeat_rounds": 10},
        overlay={"links": [["A", "B"], ["B", "C"], ["C", "A"]]},
        workload={
            "subscriptions": [{"at": "B", "topic": "a"}], "publications": [{"at": "A", "round": 30, "topic": "a"}],
        },
    ),
}  # fmt: skip

message = messages("ABCDEFG".index)


def ids(*publications: str) -> list[dict[str, int]]:
    """Returns ids of publications as IHAVE and IWANT have them; A2 is the publication of A's second call."""
    return [{"source": "ABCDEFG".index(one[0]), "source_seq": int(one[1:])} for one in publications]


def about(of: str) -> str:
    """Returns the condition for the rows of a publication; A2 is the publication of A's second call."""
    return f"source = {'ABCDEFG'.index(of[0])} and source_seq = {of[1:]}"


def sent(kind: str, src: int, dst: int, round_: int, of: str | None = None) -> str:
    """Returns the condition for the messages of a round."""
    found = cases.sent(kind, src, dst, round_)
    return found if of is None else f"{found} and {about(of)}"


def with_ids(where: str, *publications: str) -> Change:
    """Returns the change of the ids in the IHAVE or IWANT that matches a condition."""
    body = json.dumps({"topic": "a", "ids": ids(*publications)})
    return replaced(where, body=f"'{body}'")


def issued(of: str, round_: int) -> Change:
    """Returns the change of the round of a publication."""
    return replaced(about(of), issued_round=str(round_))


def setting(name: str, value: int, changed: int) -> Change:
    """Returns the change of a setting of the protocol."""
    texts = [f'"protocol.{name}": {of}' for of in (value, changed)]
    return replaced("true", parameters=f"replace(parameters, '{texts[0]}', '{texts[1]}')")


def state(node: int, **values: str) -> Change:
    """Returns the change of a node's state of the topic."""
    return replaced(f"node_id = {node}", **values)


def mesh(*nodes: int) -> str:
    """Returns SQL for a set of nodes."""
    return f"array({', '.join(f'cast({node} as bigint)' for node in nodes)})"
