"""Audits of single messages of ginger find the violations of their rules, and nothing else."""

from __future__ import annotations

import pytest
from support.cases import Case, case, fault, hunted, lines, messages, sent, store_of
from support.copies import Planting

from pipelines.store.store import Store
from pipelines.testing import Change, removed, replaced, scenario

NODES = ["B0", "B1", "B2", "B3", "B4", "C5", "C6", "C7", "C8"]
B0, B1, B2, B3, B4, C5, C6, C7, C8 = range(9)
RUNS = {
    # B0 crashes in round 208. B1 and B2 elect B1 in round 223. B4 joins in round 268, B3 is back in round 410.
    "ginger": hunted("ginger_late", {"kind": "crash", "node": "B3", "round": 400, "until": 410}),
    # B2 and B3 are children of B1, a child of B0. Nobody sends a view.
    "tree": scenario(
        protocol={"name": "ginger"}, overlay={"links": [["B0", "B1"], ["B1", "B2"], ["B1", "B3"]],
                                              "clients": [{"name": "C4", "at": "B0"}]},
        workload={"subscriptions": [{"at": "C4", "topic": "t"}],
                  "publications": [{"at": "C4", "round": 30, "topic": "t", "guarantee": "causal", "keys": ["k"]}]},
    ),
}  # fmt: skip
ginger = messages(NODES.index)


def named(*brokers: int) -> list[dict[str, int]]:
    """Returns failed brokers that have not recovered before, as a vote names them."""
    return [{"broker": broker, "incarnation": 0} for broker in brokers]


def vote(src: int, dst: int, value: int, changed: int) -> Change:
    """Returns the change of a vote of round 221."""
    texts = [f'"vote":{of}' for of in (value, changed)]
    return replaced(sent("RootElection", src, dst, 221), body=f"replace(body, '{texts[0]}', '{texts[1]}')")


def reported(to: int, node: int) -> str:
    """Returns the detail of a report that no present child has sent."""
    return f"reports to node {to} that node {node} has locked the key items, which no present child has reported"


CASES: dict[str, Case] = {
    **{f"the run {name}": case(name, {}) for name in RUNS},
    # sends_view
    "no view for a new child": case(
        "ginger", {"sends_view": "427 B2 -: accepts node 4 and does not send its view"},
        message=removed(sent("TreeViewUpdate", B2, B4, 427)),
    ),
    # absent_silent
    "a message of a broker that has not joined": case(
        "ginger", {"absent_silent": "200 B4 -: sends Failed to node 3, and has not joined"},
        message=ginger("Failed", "B4", "B3", 200, failed=B2),
    ),
    "messages of a broker that never joins": case(
        "ginger", {"absent_silent": [f"{at} B4 -: sends {kind} to node {to}, and has not joined" for at, kind, to in (
            (272, "LostMessageRequest", 3), (413, "ParentResponse", 3), (429, "LostMessageRequest", 2))]},
        message=removed(f"kind = 'ParentRequest' and src = {B4}"),
    ),
    # elects_highest, B1 votes 1 and B2 votes 0
    "a winner with the lower vote": case(
        "ginger", {"elects_highest": ["223 B1 -: elects node 1, and node 2 has residual degree 0",
                                      "223 B2 -: elects node 1, and has residual degree 0 itself"]},
        message=vote(B1, B2, 1, -1),
    ),
    "a winner with an equal vote and the lower id": case("ginger", {}, message=vote(B1, B2, 1, 0)),
    "a winner without a vote": case(
        "ginger", {"elects_highest": "223 B2 -: elects node 1 without a vote of node 1"},
        message=replaced(sent("RootElection", B1, B2, 221), due_round="224"),
    ),
    # shows_electors
    "a view without an elector": case(
        "ginger", {"shows_electors": ["223 B1 -: the view for node 7 does not show elector 2"]},
        message=replaced(sent("TreeViewUpdate", B1, C7, 223), body="'{\"seen\":[]}'"),
    ),
    "a view without an elector that has crashed": case(
        "ginger", {}, message=replaced(sent("TreeViewUpdate", B1, C7, 223), body="'{\"seen\":[]}'"),
        fault_event=fault("crash", 223, B2, 224),
    ),
    # holds_messages
    "a message of an orphan during its repair": case(
        "ginger",
        {"holds_messages": "230 B2 C5:2: sends Metadata to node 3 during its repair from round 223 to 235"},
        message=ginger("Metadata", "B2", "B3", 230, of="C5:2", covered=[]),
    ),
    "a message of a parent during a repair": case(
        "ginger",
        {"holds_messages": "230 B1 C5:2: sends Metadata to node 5 during its repair from round 229 to 233"},
        message=ginger("Metadata", "B1", "C5", 230, of="C5:2", covered=[]),
    ),
    "a message in the round of an exchange": case(
        "ginger", {}, message=ginger("Metadata", "B2", "B3", 235, of="C5:2", covered=[]),
    ),
    # answers_votes
    "a vote without an answer": case(
        "ginger", {"answers_votes": "301 B1 -: does not answer the vote of node 2"},
        message=ginger("RootElection", "B2", "B1", 300, vote=0, brokers=named(B2, B4)),
    ),
    # A repair lasts at most 12 + 3 + 4 (2 · 3 + 3 · 18) = 255 rounds.
    **{
        f"a vote without an answer before a crash in round {at}": case(
            "ginger", {"answers_votes": "301 B1 -: does not answer the vote of node 2"} if is_found else {},
            message=ginger("RootElection", "B2", "B1", 300, vote=0, brokers=named(B2, B4)),
            fault_event=fault("crash", at, B1, at + 1),
        )
        for at, is_found in ((302, False), (556, False), (557, True))
    },
    "a vote with an answer without a vote": case(
        "ginger", {}, message=[ginger("RootElection", "B2", "B1", 300, vote=0, brokers=named(B2, B4)),
                               ginger("RootElection", "B1", "B2", 301, vote=None, brokers=[])],
    ),
    # newcomer_answers, B3 recovers in round 410 and has a parent in round 416
    "a newcomer declines": case(
        "ginger",
        {"newcomer_answers": "414 B3 -: has no parent since its recovery in round 410, and answers declined to node 4"},
        message=ginger("ParentResponse", "B3", "B4", 414, answer="declined"),
    ),
    "a newcomer with a parent declines": case(
        "ginger", {}, message=ginger("ParentResponse", "B3", "B4", 416, answer="declined"),
    ),
    # asks_ancestors_first
    "an orphan asks its sibling first": case(
        "ginger", {"asks_ancestors_first": "450 B3 -: asks its sibling 4 before node 1"},
        message=ginger("ParentRequest", "B3", "B4", 450, topics=[]),
    ),
    "an orphan asks its sibling after its ancestor": case(
        "ginger", {}, message=[ginger("ParentRequest", "B3", "B1", 449, topics=[]),
                               ginger("ParentRequest", "B3", "B4", 450, topics=[])],
    ),
    "an orphan asks its sibling after the failure of its ancestor": case(
        "ginger", {}, message=[ginger("Failed", "B2", "B3", 449, failed=B1, incarnation=0),
                               ginger("ParentRequest", "B3", "B4", 450, topics=[])],
    ),
    **{
        f"a sibling is asked{name}": case(
            "tree", {"asks_ancestors_first": "50 B2 -: asks its sibling 3 before node 0"} if is_found else {},
            message=[*others, ginger("ParentRequest", "B2", "B3", 50, topics=[])],
            fault_event=[*fault("crash", 40, B1, 45), *faults],
        )
        for name, is_found, others, faults in (
            (" without a view", True, [], []),
            (" after the ancestor", False, [ginger("ParentRequest", "B2", "B0", 49, topics=[])], []),
            (" after the failure of the ancestor", False,
             [ginger("NeighborDown", "B2", "B2", 40, 50, peer=B0)], []),
            (" before the failure of the ancestor", True,
             [ginger("NeighborDown", "B2", "B2", 40, 51, peer=B0)], []),
            (" after a crash", False, [], fault("crash", 40, B2, 45)),
            (" before a crash", True, [], fault("crash", 51, B2, 52)),
        )
    },
    # reports_present, B1 learns in round 221 that B0 has failed
    "a report that no child has sent": case(
        "ginger", {"reports_present": f"100 B3 C5:1: {reported(B2, B4)}"},
        message=ginger("TotalAck", "B3", "B2", 100, of="C5:1", covered=[B3, B4, C8]),
    ),
    "the report of a child before its failure": case(
        "ginger", {}, message=[ginger("TotalAck", "B0", "B1", 100, of="C5:1", covered=[B0]),
                               ginger("TotalAck", "B1", "B3", 220, of="C5:1", covered=[B0])],
    ),
    "the report of a child after its failure": case(
        "ginger", {"reports_present": f"222 B1 C5:1: {reported(B2, B0)}"},
        message=[ginger("TotalAck", "B0", "B1", 100, of="C5:1", covered=[B0]),
                 ginger("TotalAck", "B1", "B2", 222, of="C5:1", covered=[B0])],
    ),
}  # fmt: skip


runs = store_of(RUNS)


@pytest.mark.parametrize("name", CASES)
def test_the_audits_find_exactly_the_violations(runs: Store, name: str) -> Planting:
    of = CASES[name]
    [copy] = yield [of.plant(runs, RUNS)]
    assert lines(copy) == of.found
