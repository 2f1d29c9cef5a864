"""Audits of single messages of delta find the violations of their rules, and nothing else.

Nodes A to H have ids 0 to 7.
"""

from __future__ import annotations

import pytest
from support.cases import Case, case, fault, hunted, lines, messages, sent, store_of
from support.copies import Planting

from pipelines.store.store import Store
from pipelines.testing import Change, copied, removed, replaced

A, B, C, D, E, F, G, H = range(8)
# C is RECOVERING from round 52 to 58; δ is 2.
RUNS = {"delta": hunted("delta", {"kind": "crash", "node": "C", "round": 40, "until": 52})}
delta = messages("ABCDEFGH".index)


def status(src: int, dst: int, round_: int, name: str) -> Change:
    """Returns the change of a STATUS message from OPERATIONAL to another status."""
    return replaced(sent("STATUS", src, dst, round_), body=f"replace(body, 'OPERATIONAL', '{name}')")


PASSED = {"no_operational_skipped": [f"90 {node} A1: PUB from A to D went past it" for node in ("B", "C")]}
CASES: dict[str, Case] = {
    **{f"the run {name}": case(name, {}) for name in RUNS},
    # answered_peers
    **{
        f"a message over a bypass{name}": case(
            "delta", {**PASSED, **found}, message=[delta("PUB", "A", "D", 90, of="A1"), *answers],
        )
        for name, answers, found in (
            ("", [], {"answered_peers": "90 A A1: PUB to node 3, which has not answered"}),
            (" after an answer", [delta("STATUS", "D", "A", 89, status="OPERATIONAL")], {}),
            (" before an answer", [delta("STATUS", "D", "A", 90, status="OPERATIONAL")],
             {"answered_peers": "90 A A1: PUB to node 3, which has not answered"}),
            (" after an answer to another node", [delta("STATUS", "D", "B", 89, status="OPERATIONAL")],
             {"answered_peers": "90 A A1: PUB to node 3, which has not answered"}),
        )
    },
    # last_words, B learns in round 45 that C has crashed in round 40
    "a report before a message": case(
        "delta", {"last_words": "45 B -: is told that node 2 crashed in round 40, before CONF from there comes"},
        message=delta("CONF", "C", "B", 39, 46, of="A1"),
    ),
    "a report in the round of a message": case("delta", {}, message=delta("CONF", "C", "B", 39, 45, of="A1")),
    "a report before a PAR_TOP": case("delta", {}, message=delta("PAR_TOP", "C", "B", 39, 46, links=[])),
    "a report before the detection delay": case(
        "delta", {"last_words": "44 B -: is told that node 2 crashed in round 40, before its detection delay is over"},
        message=replaced(sent("DETECT", B, B, 40), due_round="44"),
    ),
    # order_of_resends
    "publications in the wrong order": case(
        "delta", {"order_of_resends": "99 A A8: leaves to node 1 behind publication 9"},
        message=[delta("PUB", "A", "B", 99, of="A9"), delta("PUB", "A", "B", 99, of="A8")],
    ),
    "publications of two sources": case(
        "delta", {}, message=[delta("PUB", "B", "E", 99, of="G9"), delta("PUB", "B", "E", 99, of="A8")],
    ),
    # incarnations
    "a message to an earlier incarnation": case(
        "delta", {"incarnations": "53 C A1: PUB of node 1 is handled, and was meant for an earlier incarnation"},
        message=delta("PUB", "B", "C", 51, 53, of="A1"),
    ),
    "a message to the present incarnation": case("delta", {}, message=delta("CONF", "B", "C", 62, 65, of="A1")),
    "a request to an earlier incarnation": case(
        "delta", {}, message=delta("CON_REQUEST", "B", "C", 51, 53, incarnation=0),
    ),
    # tells_peers
    **{
        f"{name} after a recovery": case(
            "delta", {"tells_peers": "58 C -: does not tell node 3 that it is OPERATIONAL again"}, message=changes,
        )
        for name, changes in (
            ("no STATUS", removed(sent("STATUS", C, D, 58))),
            ("another STATUS", status(C, D, 58, "RECOVERING")),
            ("no STATUS to a member that claims to be DETACHED",
             [removed(sent("STATUS", C, D, 58)), status(D, C, 53, "DETACHED")]),
        )
    },
    **{
        f"no STATUS after a report of {name}": case(
            "delta", {"tells_peers": "58 C -: does not tell node 3 that it is OPERATIONAL again"} if is_found else {},
            message=[removed(sent("STATUS", C, D, 58)), delta("DETECT", "C", "C", 52, due, peer=peer, incarnation=0)],
        )
        for name, peer, due, is_found in (
            ("the peer's crash", D, 58, False), ("another node's crash", G, 58, True),
            ("the peer's later crash", D, 59, True),
        )
    },
    # answers_in_turn, C has the answers of D and G in round 54 and that of B in round 58
    "an answer before that of another side": case(
        "delta", {"answers_in_turn": "55 C -: recovers, and answers node 3 before node 1 has answered it"},
        message=delta("PAR_SUB", "C", "D", 55, entries=[]),
    ),
    "an answer after those of all other sides": case("delta", {}, message=delta("PAR_SUB", "C", "B", 55, entries=[])),
    "an answer before those of all other sides": case(
        "delta", {"answers_in_turn": "53 C -: recovers, and answers node 1 before node 3 has answered it"},
        message=delta("PAR_SUB", "C", "B", 53, entries=[]),
    ),
    "an answer before that of a member that claims to be DETACHED": case(
        "delta", {
            "answers_in_turn": "55 C -: recovers, and answers node 3 before node 1 has answered it",
            "incarnations": "55 C -: STATUS of node 1 is handled, and was meant for an earlier incarnation",
        },
        message=[delta("PAR_SUB", "C", "D", 55, entries=[]), delta("STATUS", "B", "C", 52, 55, status="DETACHED")],
    ),
    **{
        f"an answer before that of another side, after a report of {name}": case(
            "delta", {"answers_in_turn": "55 C -: recovers, and answers node 3 before node 1 has answered it"}
            if is_found else {},
            message=[delta("PAR_SUB", "C", "D", 55, entries=[]),
                     delta("DETECT", "C", "C", 52, due, peer=peer, incarnation=0)],
        )
        for name, peer, due, is_found in (
            ("its crash", B, 55, False), ("another node's crash", G, 55, True), ("its later crash", B, 56, True),
        )
    },
    # status_first
    "STATUS behind a publication": case(
        "delta", {"status_first": "47 D -: STATUS to node 6 leaves behind PUB"},
        message=copied(sent("STATUS", D, G, 47), kind="'PUB'", message_id="-1", source=str(A), source_seq="2"),
    ),
    "STATUS behind a confirmation": case(
        "delta", {}, message=copied(sent("STATUS", D, G, 47), kind="'CONF'", message_id="-1", source=str(A),
                                    source_seq="2"),
    ),
    # own_messages
    **{
        f"an own message{name}": case("delta", found, message=delta("PUB", "B", "A", 95, of="A1", fate=fate), **changes)
        for name, fate, found, changes in (
            ("", "delivered", {"own_messages": "96 A A1: takes its own PUB from node 1 for a new one"}, {}),
            (" that is a duplicate", "duplicate", {}, {}),
            (" from before a crash", "delivered", {}, {"fault_event": fault("crash", 94, A)}),
            (" from after a crash", "delivered",
             {"own_messages": "96 A A1: takes its own PUB from node 1 for a new one"},
             {"fault_event": fault("crash", 10, A, 11)}),
        )
    },
    # guided_again
    "a Guided publication that is not sent again": case(
        "delta",
        {"guided_again": [f"58 C G8: accepted as Guided without a path to node {node}, and not sent again with REJOIN"
                          for node in (D, F, H)]},
        message=delta("PUB", "G", "C", 54, of="G8", guide=[{"path": [C, B], "is_done": False}]),
    ),
    **{
        f"a Guided publication {name}": case(
            "delta", {}, message=[
                delta("PUB", "G", "C", 54, due, of="G8", guide=[{"path": [C, B], "is_done": False}]), *others],
        )
        for name, due, others in (
            ("that is sent again", 55, [copied(
                f"{sent('PUB', C, B, 58)} and source_seq = 3", source_seq="8", message_id="message_id + 1000000")]),
            ("that is confirmed", 55, [delta("CONF", "C", "G", 58, of="G8")]),
            ("in the round of REJOIN", 58, []),
        )
    },
    # own_number, A's last publication is that of round 92
    **{
        f"{name} own number{of}": case("delta", {"own_number": f"92 A A12: is not in the duplicate detector of its "
                                                 f"source, which has {name}"} if is_found else {},
                                       state_detector=change, **changes)
        for name, change in (
            ("no row", removed(f"node_id = {A} and source = {A}")),
            ("11", replaced(f"node_id = {A} and source = {A}", last_seq="11")),
        )
        for of, is_found, changes in (
            ("", True, {}), (" after a crash", False, {"fault_event": fault("crash", 92, A)}),
            (" before a crash", True, {"fault_event": fault("crash", 10, A, 11)}),
        )
    },
}  # fmt: skip


runs = store_of(RUNS)


@pytest.mark.parametrize("name", CASES)
def test_the_audits_find_exactly_the_violations(runs: Store, name: str) -> Planting:
    of = CASES[name]
    [copy] = yield [of.plant(runs, RUNS)]
    assert lines(copy) == of.found
