"""Each audit of protocol epidemic finds the violations of its rule, and only violations.

Each case changes one of four runs without violations. Nodes A to G have ids 0 to 6. The id of pattern ``topic = 'a'``
is 0, that of ``topic = 'b'`` 1. The event A2 is that of A's second call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from support.cases import LATER, Case, case, fault, hunted, lines, messages, sent, store_of
from support.copies import Plant, Planting

from pipelines.store.store import Store
from pipelines.testing import Change, added, copied, removed, replaced

A, B, C, D, E, F, G = range(7)
FAULTS: list[dict[str, Any]] = [
    {"kind": "loss", "rate": 1.0, "kinds": ["EVENT"], "round": 28, "until": 30},
    {"kind": "crash", "node": "B", "round": 68, "until": 76},
]


RUNS = {
    # Combined pull: gossip_rounds is 5, lost_rounds 40, lost_buffer 2, buffer 6, fanout 1. D is a client of pattern 0
    # until round 90, and of pattern 1. F is a client of both, E of pattern 1 from round 50, A of 0 from round 60.
    "pull": hunted("epidemic", *FAULTS),
    # The link of B and C is one of E and C from round 38 to 53.
    "links": hunted("epidemic_links"),
    # Push and pull, with eviction foreign_first.
    "push": hunted("epidemic_push"),
    # A and E gossip in the same rounds about both patterns.
    "draws": hunted("epidemic_draws"),
}
message = messages("ABCDEFG".index)


def gossip(
    src: str, dst: str, sent: int, style: str, initiator: int, *digest: Sequence[int], due: int | None = None,
    fate: str = "lost_link", **body: Any,
) -> Change:  # fmt: skip
    """Returns the change that adds gossip; an entry of the digest is source, pattern and number."""
    listed = [dict(zip(("source", "pattern_id", "number"), one, strict=True)) for one in digest]
    body = {"style": style, "initiator": initiator, "pattern_id": None, "digest": listed, **body}
    return message("GOSSIP", src, dst, sent, due, fate=fate, **body)


CASES: dict[str, Case] = {
    **{f"the run {name}": case(name, {}) for name in RUNS},
    # answered_leave
    "an answered event in the digest": case(
        "pull", {"answered_leave": "45 A A2: answers node 6, and leaves the event in the digest"},
        message=gossip("A", "B", 45, "publisher", G, (A, 0, 2), path=[]),
    ),
    "another event in the digest": case("pull", {}, message=gossip("A", "B", 45, "publisher", G, (A, 0, 3), path=[])),
    "an answered event in the digest of subscriber-based pull": case(
        "pull", {}, message=gossip("A", "B", 45, "subscriber", G, (A, 0, 2), pattern_id=0),
    ),
    # answers_requests: E has A1 since round 22
    "a request that is not answered": case(
        "push", {
            "answers_requests": "25 E A1: has it since round 22, and does not answer node 5",
            "requests_missing": "24 F A1: requests it from node 4, and no digest of this node about a pattern of its "
                                "clients lists it",
        },
        message=message("REQUEST", "F", "E", 24, digest=[{"source": A, "number": 1}]),
    ),
    "a pull digest that is not answered": case(
        "pull", {
            "answers_requests": "24 B A1: has it since round 21, and does not answer node 2",
            "asks_for_own": "23 C -: asks for an event of pattern 0, to which no client there subscribes",
            "asks_for_gaps": "23 C -: asks for event 1 of node 0 and pattern 0, and no later one has arrived",
        },
        message=gossip("C", "B", 23, "publisher", C, (A, 0, 1), path=[A], fate="delivered"),
    ),
    # asks_for_gaps
    "a request before a later event": case(
        "pull", {"asks_for_gaps": "118 D -: asks for event 4 of node 6 and pattern 1, and no later one has arrived"},
        message=gossip("D", "C", 118, "subscriber", D, (G, 1, 4), pattern_id=1),
    ),
    "a request for an event that has arrived": case(
        "pull", {"asks_for_gaps": "118 F -: asks for event 7 of node 0 and pattern 0, which has arrived"},
        message=gossip("F", "E", 118, "subscriber", F, (A, 0, 7), pattern_id=0),
    ),
    "a request for an event that has arrived before the client left another pattern": case(
        "pull", {"asks_for_gaps": "118 F -: asks for event 7 of node 0 and pattern 0, which has arrived"},
        message=gossip("F", "E", 118, "subscriber", F, (A, 0, 7), pattern_id=0),
        subscription=replaced("subscription_id = 1", unsubscribed_round="117", ended_round="117"),
    ),
    "a request for an event that has arrived before the client left later": case(
        "pull", {"asks_for_gaps": "88 D -: asks for event 5 of node 0 and pattern 0, which has arrived"},
        message=gossip("D", "C", 88, "subscriber", D, (A, 0, 5), pattern_id=0),
    ),
    "a request for an event that has arrived before the client left and returned": case(
        "pull", {"asks_for_gaps": "93 D -: asks for event 5 of node 0 and pattern 0, which has arrived"},
        message=gossip("D", "C", 93, "subscriber", D, (A, 0, 5), pattern_id=0),
        subscription=added(run_id=0, subscription_id=99, subscriber=D, predicate="topic = 'a'", issued_round=92,
                           unsubscribed_round=94, ended_round=94),
        predicate=added(run_id=0, subscription_id=99, attribute="topic", op="=", text="a"),
        state_pattern=added(run_id=0, node_id=D, subscription_id=99, pattern_id=0, is_initial=False),
    ),
    "a later subscriber's request for an event before all events that have arrived": case(
        "pull", {"asks_for_gaps": "118 A -: asks for event 1 of node 6 and pattern 0, and no earlier one has arrived"},
        message=gossip("A", "B", 118, "subscriber", A, (G, 0, 1), pattern_id=0),
    ),
    # asks_for_own
    "a request without a client": case(
        "pull", {
            "asks_for_own": "93 D -: asks for an event of pattern 0, to which no client there subscribes",
            "asks_for_gaps": "93 D -: asks for event 6 of node 0 and pattern 0, which has arrived",
        },
        message=gossip("D", "C", 93, "subscriber", D, (A, 0, 6), pattern_id=0),
    ),
    "a request in the round in which the client leaves": case(
        "pull", {}, subscription=replaced("subscription_id = 3", unsubscribed_round="88"),
    ),
    "a request after the client has left": case(
        "pull", {"asks_for_own": "88 D -: asks for an event of pattern 0, to which no client there subscribes"},
        subscription=replaced("subscription_id = 3", unsubscribed_round="87"),
    ),
    # bounded_cache: A's cache has 6 events
    "a cache with 7 events": case(
        "push", {"bounded_cache": "- A -: the cache holds 7 events, buffer is 6"},
        state_cache=copied(f"node_id = {A} and source_seq = 9", source_seq="99"),
    ),
    # counters
    "a counter with a gap": case(
        "pull", {"counters": "28 A A2: has counter 3 for pattern 0 after 1 events"},
        state_tag=replaced(f"node_id = {A} and source_seq = 2", number="3"),
    ),
    # crash_empties_cache: B is down from round 68 to 76
    "an answer from before the crash": case(
        "pull", {
            "crash_empties_cache": "90 B A5: answers with an event that it had before its crash in round 68",
            "replies_requested": "90 B A5: answers node 5 with it, and no request for it arrives in this round",
        },
        message=message("REPLY", "B", "F", 90, of="A5", fate="duplicate", id="0:P0-4"),
    ),
    "an answer from after the crash": case(
        "pull", {"replies_requested": "90 B A10: answers node 5 with it, and no request for it arrives in this round"},
        message=message("REPLY", "B", "F", 90, of="A10", fate="duplicate", id="0:P0-7"),
    ),
    # discards_oldest: A's cache has its last 6 events
    "an old event in the cache": case(
        "pull", {"discards_oldest": "- A A99: is cached since round 20, and 12 events have arrived since",
                 "bounded_cache": "- A -: the cache holds 7 events, buffer is 6"},
        state_cache=copied(f"node_id = {A} and source_seq = 9", source_seq="99", cached_round="20"),
    ),
    # delivered_once
    "a second delivery": case(
        "pull", {"delivered_once": "119 F G8: delivered 2 times, first in round 117, last in round 119"},
        delivery=copied(f"subscriber = {F} and source = {G} and source_seq = 8", round="119"),
    ),
    "a delivery to a node without a client": case(
        "pull",
        {"delivered_once": "117 B G8: delivered in round 117 to a node without a matching subscription in that round"},
        delivery=copied(f"subscriber = {F} and source = {G} and source_seq = 8", subscriber=str(B)),
    ),
    # fanout
    "gossip to two neighbours": case(
        "pull", {"fanout": "44 C -: sends gossip of node 3 to 2 neighbours"},
        message=copied(sent("GOSSIP", C, B, 44, "subscriber"), dst=str(G), message_id="-1", fate="'lost_link'"),
    ),
    "gossip to two neighbours after two copies": case(
        "pull", {}, message=[
            copied(sent("GOSSIP", C, B, 44, "subscriber"), dst=str(G), message_id="-1", fate="'lost_link'"),
            copied(sent("GOSSIP", D, C, 43, "subscriber"), message_id="-2"),
        ],
    ),
    "gossip back to its sender": case(
        "pull", {"fanout": "44 C -: sends gossip of node 3 back to node 3"},
        message=replaced(sent("GOSSIP", C, B, 44, "subscriber"), dst=str(D), fate="'lost_link'"),
    ),
    # gives_up: F asks for G2 in round 53
    **{
        f"a request again after {round_ - 53} rounds of {lost_rounds}": case(
            "pull", found, run=replaced("true", parameters="replace(parameters, '\"protocol.lost_rounds\": 40', "
                                        f"'\"protocol.lost_rounds\": {lost_rounds}')"),
            message=[replaced(f"kind = 'REPLY' and dst = {F} and source = {G} and source_seq = 2", fate="'lost_link'"),
                     gossip("F", "E", round_, "subscriber", F, (G, 1, 1), pattern_id=1)],
        )
        for round_, lost_rounds, found in (
            (93, 40, {"gives_up": "93 F -: asks for event 1 of node 6 and pattern 1 for 40 rounds"}),
            (93, 41, {}),
        )
    },
    "a request for 3 events": case(
        "pull", {"gives_up": "- F -: LostBuffer holds 3 events", "asks_for_gaps": [
            f"118 F -: asks for event {number} of node 0 and pattern 0, which has arrived" for number in (4, 5, 7)]},
        message=gossip("F", "E", 118, "subscriber", F, *((A, 0, number) for number in (4, 5, 7)), pattern_id=0),
    ),
    **{
        f"a LostBuffer with {n_lost} events": case("pull", found, state_lost=[
            added(run_id=0, node_id=F, source=A, pattern_id=0, number=number, detected_round=1, expires_round=2)
            for number in range(n_lost)])
        for n_lost, found in ((3, {"gives_up": "- F -: LostBuffer holds 3 events"}), (2, {}))
    },
    # gossip_on_time
    "gossip between two gossip rounds": case(
        "pull", {"gossip_on_time": "94 D -: begins gossip rounds in 43 and 94, which are not whole intervals apart"},
        message=gossip("D", "C", 94, "push", D, (G, 1, 1), pattern_id=1),
    ),
    "gossip between two gossip rounds of a run with replaced links": case(
        "links", {"gossip_on_time": "60 D -: begins gossip rounds in 57 and 60, which are not whole intervals apart"},
        message=gossip("D", "C", 60, "push", D, (A, 0, 1), pattern_id=0),
    ),
    # gossips_over_links
    **{
        f"gossip over the link of C and {dst} in round {round_}": case(
            "links", {"gossips_over_links": f"{round_} C -: sends gossip of node 3 to node {node}, to which it has no "
                      "link"} if is_found else {},
            message=gossip("C", dst, round_, "publisher", D, (A, 0, 1), path=[B, A]),
        )
        for dst, node, round_, is_found in (
            ("E", E, 37, True), ("E", E, 38, False), ("E", E, 52, False), ("E", E, 53, True), ("A", A, 45, True),
            ("B", B, 37, False), ("B", B, 38, True), ("B", B, 52, True), ("B", B, 53, False),
        )
    },
    "gossip by unicast": case(
        "links", {}, message=gossip("C", "E", 60, "publisher", D, (A, 0, 1), path=[B, A]),
        run=replaced("true", parameters="replace(parameters, '\"protocol.broken_route\": \"drop\"', "
                     "'\"protocol.broken_route\": \"unicast\"')"),
    ),
    # newest_route: D has A4 in round 40
    **{
        f"gossip over another route{name}": case(
            "pull", {"newest_route": "43 D A4: arrived from node 2 over [0,1,2], and gossip to its publisher goes to "
                     "node 2 and on over [4,0]"} if is_found else {},
            message=replaced(sent("GOSSIP", D, C, 43, "publisher"), body="replace(body, '[1,0]', '[4,0]')"), **changes,
        )
        for name, is_found, changes in (
            ("", True, {}), (" after a crash", False, {"fault_event": fault("crash", 41, D)}),
            (" before a crash", True, {"fault_event": fault("crash", LATER, D)}),
            (" with an event after a crash", True, {"fault_event": fault("crash", 39, D)}),
        )
    },
    # one_label
    "an empty digest": case(
        "pull", {"one_label": "93 D -: sends an empty digest"}, message=gossip("D", "C", 93, "push", D, pattern_id=1),
    ),
    "a digest with another pattern": case(
        "pull", {"one_label": "119 E -: a digest about pattern 0 lists an event of pattern 1"},
        message=gossip("E", "B", 119, "subscriber", F, (G, 1, 1), pattern_id=0),
    ),
    "a digest with two sources": case(
        "pull", {"one_label": "119 E -: a digest to a publisher lists events of 2 sources"},
        message=gossip("E", "B", 119, "publisher", F, (A, 0, 1), (G, 0, 1), path=[]),
    ),
    # own_events_last: A's cache lacks its first three events, of rounds 20, 28 and 30
    **{
        f"a foreign event in a cache without own events{name}": case(
            "push", {"own_events_last": [
                f"- A A{number}: discarded, although the cache holds an event that the dispatcher neither published "
                "nor subscribed to" for number in numbers]} if numbers else {},
            state_cache=replaced(f"node_id = {A} and source_seq = 4", is_own="false"), **changes,
        )
        for name, numbers, changes in (
            ("", (1, 2, 3), {}), (" after a crash", (3,), {"fault_event": fault("crash", 29, A, 30)}),
            (" after a later crash", (), {"fault_event": fault("crash", 30, A, 31)}),
        )
    },
    # pulls_reach_subscribers: C has no client
    **{
        f"a digest that is not forwarded{name}": case(
            "pull", {"pulls_reach_subscribers": "44 C -: does not forward the digest of node 3, and node 1 has "
                     "subscribers"} if is_found else {},
            message=removed(sent("GOSSIP", C, B, 44, "subscriber")), **changes,
        )
        for name, is_found, changes in (
            ("", True, {}),
            (" by a node with a replaced link", False,
             {"fault_event": added(run_id=0, round=200, kind="unlink", src=A, dst=C)}),
            (" in a run with another replaced link", True,
             {"fault_event": added(run_id=0, round=200, kind="unlink", src=A, dst=G)}),
        )
    },
    # replies_requested: D has A2, and F sends no request for it after round 47
    "an answer without a request": case(
        "pull", {"replies_requested": "60 D A2: answers node 5 with it, and no request for it arrives in this round"},
        message=message("REPLY", "D", "F", 60, of="A2", fate="duplicate", id="0:P0-2"),
    ),
    "an answer to a request for another event": case(
        "pull", {"replies_requested": "48 D A1: answers node 5 with it, and no request for it arrives in this round"},
        message=message("REPLY", "D", "F", 48, of="A1", fate="duplicate", id="0:P0-1"),
    ),
    # requests_missing: a digest of E with A1 arrives at F in round 25; B has no client
    "a request for an event that the digest of another node lists": case(
        "push", {"requests_missing": "25 F A1: requests it from node 3, and no digest of this node about a pattern of "
                                     "its clients lists it"},
        message=message("REQUEST", "F", "D", 25, fate="lost_link", digest=[{"source": A, "number": 1}]),
    ),
    "a request for an event that has arrived over the tree": case(
        "push", {"requests_missing": "25 F A1: requests it from node 4, and has it since round 23"},
        message=message("REQUEST", "F", "E", 25, fate="lost_link", digest=[{"source": A, "number": 1}]),
    ),
    "a request by a dispatcher without a client": case(
        "push", {"requests_missing": "23 B A1: requests it from node 4, and no digest of this node about a pattern of "
                                     "its clients lists it"},
        message=message("REQUEST", "B", "E", 23, fate="lost_link", digest=[{"source": A, "number": 1}]),
    ),
    # tables_follow_links
    "an entry for a link that has ended": case(
        "links",
        {"tables_follow_links": "53 E -: has an entry of pattern 0 for node 2, to which the link has ended"},
        state_routing_entry=added(run_id=0, node_id=E, pattern_id=0, next_hop=C),
    ),
    "an entry for a link that has ended, at a node that is down": case(
        "links", {}, state_routing_entry=added(run_id=0, node_id=E, pattern_id=0, next_hop=C),
        fault_event=fault("crash", LATER, E),
    ),
    # tables_return
    **{
        f"no SUB after a recovery{name}": case(
            "pull", {"tables_return": "76 E -: sends node 1 no SUB for pattern 1 when the two are connected"}
            if is_found else {}, message=removed(sent("SUB", E, B, 76, '"pattern_id":1')), **changes,
        )
        for name, is_found, changes in (
            ("", True, {}), (" in a pause", False, {"fault_event": fault("pause", 76, E, 77)}),
            (" after a pause", True, {"fault_event": fault("pause", 75, E, 76)}),
            (" over a replaced link", False,
             {"fault_event": added(run_id=0, round=LATER, kind="unlink", src=E, dst=B)}),
            (" in a run with another replaced link", True,
             {"fault_event": added(run_id=0, round=1, kind="unlink", src=A, dst=G)}),
        )
    },
    "no SUB over a new link": case(
        "links", {"tables_return": "38 E -: sends node 2 no SUB for pattern 0 when the two are connected"},
        message=removed(sent("SUB", E, C, 38)),
    ),
    # tree_copies_pass
    "an event that did not arrive is forwarded": case(
        "pull", {"tree_copies_pass": "60 D A5: forwards it to node 2, and no copy arrived over the tree in this round"},
        message=message("EVENT", "D", "C", 60, of="A5", fate="duplicate", id="0:P0-4"),
    ),
    "an event is forwarded again": case(
        "pull", {"tree_copies_pass": "56 A A5: forwards it to node 1 again, first in round 52"},
        message=message("EVENT", "A", "B", 56, of="A5", fate="duplicate", id="0:P0-4"),
    ),
}  # fmt: skip


runs = store_of(RUNS)


@pytest.mark.parametrize("name", CASES)
def test_the_audits_find_exactly_the_violations(runs: Store, name: str) -> Planting:
    of = CASES[name]
    [copy] = yield [of.plant(runs, RUNS)]
    assert lines(copy) == of.found


@pytest.mark.parametrize(("n_changes", "is_found"), [(40, True), (39, False)])
def test_two_dispatchers_with_the_same_draws(runs: Store, n_changes: int, is_found: bool) -> Planting:
    """E gossips as A does, until A has changed its pattern as often as given."""
    run = list(RUNS).index("draws")
    of_a = f"kind = 'GOSSIP' and src = {A} and get_json_object(body, '$.initiator') = '{A}'"
    chosen = sorted(
        tuple(row)
        for row in runs.read("message").where(f"run_id = {run} and {of_a}")
        .selectExpr("sent_round", "get_json_object(body, '$.pattern_id')").distinct().collect()
    )  # fmt: skip
    changes = [later[0] for before, later in pairwise(chosen) if before[1] != later[1]]
    last = changes[n_changes - 1]
    same = [
        removed(f"kind = 'GOSSIP' and (src = {E} or sent_round > {last})"),
        copied(of_a, src=str(E), message_id="message_id + 1000000",
               body=f"replace(body, '\"initiator\":{A}', '\"initiator\":{E}')"),
    ]  # fmt: skip
    [copy] = yield [Plant(runs, run, message=same)]
    found = {name: of for name, of in lines(copy).items() if name == "draws_apart"}
    detail = f"chooses the pattern that node 0 chooses, in {n_changes} changes of the pattern"
    assert found == ({"draws_apart": [f"{last} E -: {detail}"]} if is_found else {})
