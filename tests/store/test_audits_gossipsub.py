"""Each audit of gossip in protocol gossipsub finds the violations of its rule, and only violations."""

from __future__ import annotations

import pytest
from support.cases import LATER, Case, case, fault, lines, store_of
from support.copies import Plant, Planting
from support.gossipsub import RUNS, A, B, C, D, E, F, ids, issued, message, sent, setting, with_ids

from pipelines.store.store import Store
from pipelines.testing import Change, removed, replaced

CASES: dict[str, Case] = {
    "the run flood": case("flood", {}),
    "the run members": case("members", {}),
    "the run wide": case("wide", {}),
    "the run star": case("star", {}),
    "the run flooded star": case("flooded star", {}),
    "the run ring": case("ring", {}),
    # replies_when_asked
    "REPLY without IWANT": case(
        "members", {"replies_when_asked": "130 A A3: REPLY to node 3, which has not asked for it"},
        message=message("REPLY", "A", "D", 130, of="A3", topic="a", fate="duplicate"),
    ),
    "REPLY to a lost IWANT": case(
        "members", {"replies_when_asked": "72 F F1: REPLY to node 2, which has not asked for it"},
        message=replaced(sent("IWANT", C, F, 71), fate="'lost_link'"),
    ),
    "REPLY with another number": case(
        "members", {"replies_when_asked": "156 F F2: REPLY to node 0, which has not asked for it"},
        message=message("REPLY", "F", "A", 156, 159, of="F2", topic="a", fate="duplicate"),
    ),
    "REPLY with the number of another publisher": case(
        "members", {"replies_when_asked": "156 F A3: REPLY to node 0, which has not asked for it"},
        message=message("REPLY", "F", "A", 156, 159, of="A3", topic="a", fate="duplicate"),
    ),
    "a second REPLY": case(
        "members", {"replies_when_asked": "72 F F1: 2 REPLY to node 2 for 1 IWANT"},
        message=message("REPLY", "F", "C", 72, of="F1", topic="a", fate="duplicate"),
    ),
    "a second REPLY to a second IWANT": case(
        "members", {}, message=[message("REPLY", "F", "C", 72, of="F1", topic="a", fate="duplicate"),
                                message("IWANT", "C", "F", 71, ids=ids("F1"))],
    ),
    "a second REPLY, and a link fault duplicates messages": case(
        "members", {}, message=message("REPLY", "F", "C", 72, of="F1", topic="a", fate="duplicate"),
        fault_event=fault("duplicate", 72),
    ),
    "a second REPLY, and a link fault duplicates messages later": case(
        "members", {"replies_when_asked": "72 F F1: 2 REPLY to node 2 for 1 IWANT"},
        message=message("REPLY", "F", "C", 72, of="F1", topic="a", fate="duplicate"),
        fault_event=fault("duplicate", 73),
    ),
    # answers_from_cache: history_length is 5
    "IWANT without REPLY": case(
        "members", {"answers_from_cache": "72 F F1: does not answer node 3, and has had it since round 70"},
        message=removed(sent("REPLY", F, D, 72)),
    ),
    "no REPLY 40 rounds after the arrival": case(
        "star", {"answers_from_cache": "88 A A2: does not answer node 2, and has had it since round 48"},
        message=removed(sent("REPLY", A, C, 88, "A2")), publication=issued("A2", 48),
    ),
    "no REPLY 41 rounds after the arrival": case(
        "star", {}, message=removed(sent("REPLY", A, C, 88, "A2")), publication=issued("A2", 47),
    ),
    "no REPLY after a pause": case(
        "star", {"answers_from_cache": "88 A A2: does not answer node 2, and has had it since round 65"},
        message=removed(sent("REPLY", A, C, 88, "A2")), fault_event=fault("pause", 70, A, 72),
    ),
    "no REPLY before a crash": case(
        "star", {"answers_from_cache": "88 A A2: does not answer node 2, and has had it since round 65"},
        message=removed(sent("REPLY", A, C, 88, "A2")), fault_event=fault("crash", LATER, A),
    ),
    "no REPLY after a crash": case(
        "star", {}, fault_event=fault("crash", 80, A, 84),
        message=[removed(sent("REPLY", A, C, 88, "A2")),
                 *(message("HELLO", "A", to, 84, topics=["a"]) for to in "BCDE")],
    ),
    "REPLY 50 rounds after the arrival": case(
        "star", {"answers_from_cache": "88 A A2: answers node 2, and has had it since round 38"},
        publication=issued("A2", 38),
    ),
    "REPLY 49 rounds after the arrival": case("star", {}, publication=issued("A2", 39)),
    "REPLY 50 rounds after the arrival, with a pause": case(
        "star", {}, publication=issued("A2", 38), fault_event=fault("pause", 70, A, 72),
    ),
    "REPLY 50 rounds after the arrival, before a pause": case(
        "star", {"answers_from_cache": "88 A A2: answers node 2, and has had it since round 38"},
        publication=issued("A2", 38), fault_event=fault("pause", 300, A, 301),
    ),
    "REPLY 50 rounds after the arrival, with a pause of another node": case(
        "star", {"answers_from_cache": "88 A A2: answers node 2, and has had it since round 38"},
        publication=issued("A2", 38), fault_event=fault("pause", 70, C, 72),
    ),
    "no REPLY 40 rounds after the arrival, and another publication is forgotten": case(
        "star", {
            "answers_from_cache": "88 A A2: does not answer node 2, and has had it since round 48",
            "replies_when_asked": "159 E A1: REPLY to node 0, which has not asked for it",
        },
        message=[removed(sent("REPLY", A, C, 88, "A2")),
                 message("REPLY", "E", "A", 159, of="A1", topic="a", fate="duplicate")],
        publication=issued("A2", 48),
    ),
    # asks_at_once
    "IHAVE without IWANT of a relay": case(
        "star", {"asks_at_once": "77 D A2: does not ask node 0 for it, and lacks it"},
        message=[removed(sent("IWANT", D, A, 77)), removed(sent("REPLY", A, D, 78))],
    ),
    "IWANT for a part of an IHAVE": case(
        "star", {"asks_at_once": "67 B A1: does not ask node 0 for it, and lacks it"},
        message=[with_ids(sent("IWANT", B, A, 67), "A2"), removed(sent("REPLY", A, B, 68, "A1"))],
    ),
    "IHAVE without IWANT of a node that leaves later": case(
        "members", {"asks_at_once": "71 C F1: does not ask node 5 for it, and lacks it"},
        message=[removed(sent("IWANT", C, F, 71)), removed(sent("REPLY", F, C, 72))],
    ),
    "IHAVE without IWANT before a crash": case(
        "star", {"asks_at_once": "77 D A2: does not ask node 0 for it, and lacks it"},
        message=[removed(sent("IWANT", D, A, 77)), removed(sent("REPLY", A, D, 78))],
        fault_event=fault("crash", LATER, D),
    ),
    "a lost IHAVE without IWANT": case(
        "star", {}, message=[removed(sent("IWANT", D, A, 77)), removed(sent("REPLY", A, D, 78)),
                             replaced(sent("IHAVE", A, D, 76), fate="'lost_link'")],
    ),
    "IHAVE without IWANT of a node that has left": case(
        "members", {}, message=message("IHAVE", "B", "C", 132, topic="a", ids=ids("A4")),
    ),
    # asks_for_gossip: seen_ttl is 12
    "IWANT for a publication that the node has had": case(
        "members", {"asks_for_gossip": "83 C F1: asks for it, and has had it in round 73"},
        message=[message("IWANT", "C", "B", 83, ids=ids("F1")),
                 message("REPLY", "B", "C", 84, of="F1", topic="a", fate="duplicate")],
    ),
    "IWANT for a publication that the node has forgotten": case(
        "members", {}, run=setting("seen_ttl", 12, 1),
        message=[message("IWANT", "C", "B", 83, ids=ids("F1")),
                 message("REPLY", "B", "C", 84, of="F1", topic="a", fate="duplicate")],
    ),
    "IWANT for a publication that the node has had before a crash": case(
        "members", {}, fault_event=fault("crash", 74, C, 82),
        message=[*(message("HELLO", "C", to, 82, topics=["a"]) for to in "ABF"),
                 message("IWANT", "C", "B", 83, ids=ids("F1")),
                 message("REPLY", "B", "C", 84, of="F1", topic="a", fate="duplicate")],
    ),
    "IWANT for a publication that the node has had after a crash": case(
        "members", {"asks_for_gossip": "83 C F1: asks for it, and has had it in round 73"},
        fault_event=fault("crash", LATER, C),
        message=[message("IWANT", "C", "B", 83, ids=ids("F1")),
                 message("REPLY", "B", "C", 84, of="F1", topic="a", fate="duplicate")],
    ),
    "IWANT for a publication that the node has had before a pause": case(
        "members", {"asks_for_gossip": "83 C F1: asks for it, and has had it in round 73"},
        fault_event=fault("pause", 74, C, 82),
        message=[message("IWANT", "C", "B", 83, ids=ids("F1")),
                 message("REPLY", "B", "C", 84, of="F1", topic="a", fate="duplicate")],
    ),
    "IWANT for an unknown publication": case(
        "members", {"asks_for_gossip": "200 D A77: asks node 0 for it, and no IHAVE of this round from there names it"},
        message=message("IWANT", "D", "A", 200, ids=ids("A77")),
    ),
    "IWANT after a lost IHAVE": case(
        "members", {"asks_for_gossip": "151 D F3: asks node 5 for it, and no IHAVE of this round from there names it"},
        message=replaced(sent("IHAVE", F, D, 150), fate="'lost_link'"),
    ),
    "IWANT to another node than the IHAVE came from": case(
        "members", {"asks_for_gossip": "143 C A4: asks node 5 for it, and no IHAVE of this round from there names it"},
        message=message("IWANT", "C", "F", 143, ids=ids("A4")),
    ),
    # bounded_gossip: history_gossip is 3
    "gossip in four heartbeats": case(
        "flood", {"bounded_gossip": "93 E A2: gossiped about in 4 heartbeats, history_gossip is 3"},
        message=with_ids(sent("IHAVE", E, F, 93), "A2", "A3", "F1", "G2"),
    ),
    "gossip in four heartbeats with a crash between them": case(
        "flood", {}, message=[with_ids(sent("IHAVE", E, F, 93), "A2", "A3", "F1", "G2"),
                              *(message("HELLO", "E", to, 76, topics=["a"]) for to in "BDFG")],
        fault_event=fault("crash", 75, E, 76),
    ),
    "gossip in four heartbeats with a pause between them": case(
        "flood", {"bounded_gossip": "93 E A2: gossiped about in 4 heartbeats, history_gossip is 3"},
        message=with_ids(sent("IHAVE", E, F, 93), "A2", "A3", "F1", "G2"), fault_event=fault("pause", 75, E, 76),
    ),
    "gossip in four heartbeats before a crash": case(
        "flood", {"bounded_gossip": "93 E A2: gossiped about in 4 heartbeats, history_gossip is 3"},
        message=with_ids(sent("IHAVE", E, F, 93), "A2", "A3", "F1", "G2"), fault_event=fault("crash", LATER, E),
    ),
    # heartbeats
    "gossip between two heartbeats": case(
        "flood", {"heartbeats": "207 B -: gossips in rounds 66 and 207, which are not whole heartbeats apart"},
        message=message("IHAVE", "B", "G", 207, 209, topic="a", ids=[]),
    ),
    # gossips_widely: F has 5 neighbours and d_hi is 2, so it gossips to at least 3
    "gossip to 2 neighbours": case(
        "wide", {"gossips_widely": "75 F -: gossips to 2 of 5 neighbours"},
        message=[removed(sent("IHAVE", F, A, 75)), removed(sent("IHAVE", F, C, 75))],
    ),
    "gossip to 3 neighbours": case("wide", {}, message=removed(sent("IHAVE", F, A, 75))),
    "gossip to 2 neighbours after a fault of another one": case(
        "wide", {}, message=[removed(sent("IHAVE", F, A, 75)), removed(sent("IHAVE", F, C, 75))],
        fault_event=fault("pause", 75, A, 76),
    ),
    "gossip to 2 neighbours before a fault of another one": case(
        "wide", {"gossips_widely": "75 F -: gossips to 2 of 5 neighbours"},
        message=[removed(sent("IHAVE", F, A, 75)), removed(sent("IHAVE", F, C, 75))],
        fault_event=fault("pause", 76, A, 77),
    ),}  # fmt: skip


runs = store_of(RUNS)


@pytest.mark.parametrize("name", CASES)
def test_the_audits_find_exactly_the_violations(runs: Store, name: str) -> Planting:
    of = CASES[name]
    [copy] = yield [of.plant(runs, RUNS)]
    assert lines(copy) == of.found


@pytest.mark.parametrize(
    ("n_heartbeats", "faults", "is_found"),
    [
        (40, [], True), (39, [], False), (40, fault("pause", 0, D, 1), True),
        (40, fault("pause", 300, A, 301), False), (40, fault("pause", LATER, A), True),
    ],
)  # fmt: skip
def test_gossip_to_the_same_neighbours(
    runs: Store, n_heartbeats: int, faults: list[Change], is_found: bool
) -> Planting:
    """In the flooded star A gossips to B only, in as many heartbeats as given."""
    from_a = f"kind = 'IHAVE' and src = {A}"
    run = list(RUNS).index("flooded star")
    gossip = runs.read("message").where(f"run_id = {run} and {from_a}")
    rounds = sorted(row[0] for row in gossip.select("sent_round").distinct().collect())
    last = rounds[n_heartbeats - 1]
    told = [replaced(from_a, dst=str(B)), removed(f"{from_a} and sent_round > {last}")]
    [copy] = yield [Plant(runs, run, message=told, **({"fault_event": faults} if faults else {}))]
    detail = f"topic a: gossips to the same 1 neighbours in {n_heartbeats} heartbeats"
    assert lines(copy) == ({"varies_gossip": [f"{last} A -: {detail}"]} if is_found else {})
