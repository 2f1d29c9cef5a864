"""Audits of single messages of delta, ginger and repository find the violations of their rules, and only violations.

Each case changes one of three runs without violations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cases import Case, case, fault, lines, messages
from support.copies import Plant, Planting

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import Change, copied, removed, replaced, run_all, run_configs

HUNTED = Path(__file__).parents[1] / "mutation" / "hunted"
LATER = 9_999
"""A round after the last event of all runs."""


def hunted(name: str, node: str, down: int, until: int) -> dict[str, Any]:
    """Returns a hunted scenario with a crash of a node."""
    parts = yaml.safe_load((HUNTED / f"{name}.yaml").read_text("utf-8"))
    return {
        **parts,
        "faults": [*parts.get("faults", ()), {"kind": "crash", "node": node, "round": down, "until": until}],
    }


RUNS = {
    # C is RECOVERING from round 52 to 58; δ is 2.
    "delta": hunted("delta", "C", 40, 52),
    # B0 crashes in round 208. B1 and B2 elect B1 in round 223. B4 joins in round 268, B3 is back in round 410.
    "ginger": hunted("ginger_late", "B3", 400, 410),
    # P1 deregisters P2 in round 150. R2 is RECOVERING from round 104. R1 leaves in round 210.
    "repository": hunted("repository", "R2", 98, 104),
}
DELTA = [*"ABCDEFGH"]
GINGER = ["B0", "B1", "B2", "B3", "B4", "C5", "C6", "C7", "C8"]
REPOSITORY = ["b1", "b2", "b3", "R1", "R2", "R3", "P1", "P2", "S1", "S2"]
A, B, C, D, E, F, G, H = range(8)
B0, B1, B2, B3, B4, C5, C6, C7, C8 = range(9)
R1, R2, R3, P1, P2, S1, S2 = range(3, 10)
delta, ginger, repository = (messages(names.index) for names in (DELTA, GINGER, REPOSITORY))


def sent(kind: str, src: int, dst: int, round_: int, words: str = "") -> str:
    """Returns the condition for the messages of a round whose body contains words."""
    about = f" and body like '%{words}%'" if words else ""
    return f"kind = '{kind}' and src = {src} and dst = {dst} and sent_round = {round_}{about}"


def named(*brokers: int) -> list[dict[str, int]]:
    """Returns failed brokers that have not recovered before, as a vote names them."""
    return [{"broker": broker, "incarnation": 0} for broker in brokers]


def status(src: int, dst: int, round_: int, name: str) -> Change:
    """Returns the change of a STATUS message from OPERATIONAL to another status."""
    return replaced(sent("STATUS", src, dst, round_), body=f"replace(body, 'OPERATIONAL', '{name}')")


def vote(src: int, dst: int, value: int, changed: int) -> Change:
    """Returns the change of a vote of round 221."""
    texts = [f'"vote":{of}' for of in (value, changed)]
    return replaced(sent("RootElection", src, dst, 221), body=f"replace(body, '{texts[0]}', '{texts[1]}')")


def reported(to: int, node: int) -> str:
    """Returns the detail of a report that no present child has sent."""
    return f"reports to node {to} that node {node} has locked the key items, which no present child has reported"


def of(origin: int, to: int) -> dict[str, Any]:
    """Returns the fields of a message on topic news between a client and a repository, or two repositories."""
    return {"to": [to], "topic": "news", "origin": origin}


PASSED = {"no_operational_skipped": [f"90 {node} A1: PUB from A to D went past it" for node in ("B", "C")]}
CASES: dict[str, Case] = {
    **{f"the run {name}": case(name, {}) for name in RUNS},
    # delta: answered_peers
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
    # delta: last_words, B learns in round 45 that C has crashed in round 40
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
    # delta: order_of_resends
    "publications in the wrong order": case(
        "delta", {"order_of_resends": "99 A A8: leaves to node 1 behind publication 9"},
        message=[delta("PUB", "A", "B", 99, of="A9"), delta("PUB", "A", "B", 99, of="A8")],
    ),
    "publications of two sources": case(
        "delta", {}, message=[delta("PUB", "B", "E", 99, of="G9"), delta("PUB", "B", "E", 99, of="A8")],
    ),
    # delta: incarnations
    "a message to an earlier incarnation": case(
        "delta", {"incarnations": "53 C A1: PUB of node 1 is handled, and was meant for an earlier incarnation"},
        message=delta("PUB", "B", "C", 51, 53, of="A1"),
    ),
    "a message to the present incarnation": case("delta", {}, message=delta("CONF", "B", "C", 62, 65, of="A1")),
    "a request to an earlier incarnation": case(
        "delta", {}, message=delta("CON_REQUEST", "B", "C", 51, 53, incarnation=0),
    ),
    # delta: tells_peers
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
    # delta: answers_in_turn, C has the answers of D and G in round 54 and that of B in round 58
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
    # delta: status_first
    "STATUS behind a publication": case(
        "delta", {"status_first": "47 D -: STATUS to node 6 leaves behind PUB"},
        message=copied(sent("STATUS", D, G, 47), kind="'PUB'", message_id="-1", source=str(A), source_seq="2"),
    ),
    "STATUS behind a confirmation": case(
        "delta", {}, message=copied(sent("STATUS", D, G, 47), kind="'CONF'", message_id="-1", source=str(A),
                                    source_seq="2"),
    ),
    # delta: own_messages
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
    # delta: guided_again
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
    # delta: own_number, A's last publication is that of round 92
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
    # ginger: sends_view
    "no view for a new child": case(
        "ginger", {"sends_view": "427 B2 -: accepts node 4 and does not send its view"},
        message=removed(sent("TreeViewUpdate", B2, B4, 427)),
    ),
    # ginger: absent_silent
    "a message of a broker that has not joined": case(
        "ginger", {"absent_silent": "200 B4 -: sends Failed to node 3, and has not joined"},
        message=ginger("Failed", "B4", "B3", 200, failed=B2),
    ),
    "messages of a broker that never joins": case(
        "ginger", {"absent_silent": [f"{at} B4 -: sends {kind} to node {to}, and has not joined" for at, kind, to in (
            (272, "LostMessageRequest", 3), (413, "ParentResponse", 3), (429, "LostMessageRequest", 2))]},
        message=removed(f"kind = 'ParentRequest' and src = {B4}"),
    ),
    # ginger: elects_highest, B1 votes 1 and B2 votes 0
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
    # ginger: shows_electors
    "a view without an elector": case(
        "ginger", {"shows_electors": ["223 B1 -: the view for node 7 does not show elector 2"]},
        message=replaced(sent("TreeViewUpdate", B1, C7, 223), body="'{\"seen\":[]}'"),
    ),
    "a view without an elector that has crashed": case(
        "ginger", {}, message=replaced(sent("TreeViewUpdate", B1, C7, 223), body="'{\"seen\":[]}'"),
        fault_event=fault("crash", 223, B2, 224),
    ),
    # ginger: holds_messages
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
    # ginger: answers_votes
    "a vote without an answer": case(
        "ginger", {"answers_votes": "301 B1 -: does not answer the vote of node 2"},
        message=ginger("RootElection", "B2", "B1", 300, vote=0, brokers=named(B2, B4)),
    ),
    "a vote without an answer before a crash": case(
        "ginger", {}, message=ginger("RootElection", "B2", "B1", 300, vote=0, brokers=named(B2, B4)),
        fault_event=fault("crash", 302, B1, 303),
    ),
    "a vote with an answer without a vote": case(
        "ginger", {}, message=[ginger("RootElection", "B2", "B1", 300, vote=0, brokers=named(B2, B4)),
                               ginger("RootElection", "B1", "B2", 301, vote=None, brokers=[])],
    ),
    # ginger: newcomer_answers, B3 recovers in round 410 and has a parent in round 416
    "a newcomer declines": case(
        "ginger",
        {"newcomer_answers": "414 B3 -: has no parent since its recovery in round 410, and answers declined to node 4"},
        message=ginger("ParentResponse", "B3", "B4", 414, answer="declined"),
    ),
    "a newcomer with a parent declines": case(
        "ginger", {}, message=ginger("ParentResponse", "B3", "B4", 416, answer="declined"),
    ),
    # ginger: asks_ancestors_first
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
    # ginger: reports_present, B1 learns in round 221 that B0 has failed
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
    # repository: rectifies_unacknowledged, R3 has the acknowledgement of P1's first message in round 67
    **{
        f"R2S-Rectify in round {at}": case(
            "repository", {"rectifies_unacknowledged": f"{at} R3 P1:1: lists the message to S2, whose acknowledgement "
                           "it knows since round 67"} if is_found else {},
            message=repository(
                "R2S-Rectify", "R3", "b3", at, to=[S2], topic="news", origin=R3, designation=9, steering=R3, sync=0,
                listed=[{"source": P1, "source_seq": 1, "incarnation": 0, "n": 1}],
            ),
        )
        for at, is_found in ((67, False), (68, True))
    },
    # repository: asked_to_steer
    "a repository steers unasked": case(
        "repository", {"asked_to_steer": "1400 R1 -: steers S1 by designation 777, and is never asked"},
        message=repository("R2S*-Persistent", "R1", "b1", 1400, **of(R1, S1), seq=1, incarnation=0, n=1,
                           receivers=[{"client": S1, "designation": 777, "prev": 0}]),
    ),
    # repository: acknowledges_announced
    "a number that is not announced": case(
        "repository",
        {"acknowledges_announced": "1400 S1 -: acknowledges number 1 of R1, which is not announced in designation 999"},
        message=repository("S2R-ACK", "S1", "b1", 1400, **of(S1, R1), designation=999, steering=R1,
                           runs=[{"first": 1, "last": 1}]),
    ),
    # repository: asks_for_missing
    "R2R-NAK for a message on the disk": case(
        "repository",
        {"asks_for_missing": "1400 R3 P1:: R2R-NAK requests number 1 of its publisher, which it has since round 70"},
        message=repository("R2R-NAK", "R3", "b3", 1400, **of(R3, R2),
                           keys=[{"publisher": P1, "incarnation": 0, "n": 1}]),
    ),
    "R2R-NAK for a missing message": case(
        "repository", {}, message=repository("R2R-NAK", "R3", "b3", 1400, **of(R3, R2),
                                             keys=[{"publisher": P1, "incarnation": 0, "n": 77}]),
    ),
    "R2P-NAK for a message on the disk": case(
        "repository",
        {"asks_for_missing": "1400 R2 P1:: R2P-NAK requests number 3 of its publisher, which it has since round 263"},
        message=repository("R2P-NAK", "R2", "b2", 1400, **of(R2, P1), designation=218, incarnation=0, ns=[3]),
    ),
    # repository: recovers_missing
    "OPERATIONAL without messages": case(
        "repository", {"recovers_missing": [
            f"116 R2 {publisher}:: is OPERATIONAL without number {n} of its publisher, which it has requested"
            for publisher, n in (("P1", 2), ("P2", 1))]},
        message=removed(f"kind = 'R2R-Retransmit' and dst = {R2} and sent_round = 115"),
    ),
    "OPERATIONAL without an answer": case(
        "repository", {"recovers_missing": [
            f"116 R2 -: is OPERATIONAL before node 3 has answered on topic {topic}" for topic in ("free", "news")]},
        message=removed(f"kind = 'R2R-Recovery' and dst = {R2} and sent_round = 109 and body like '%\"origin\":3,%'"),
    ),
    # repository: recovery_ends
    **{
        f"a recovery without progress{name}": case(
            "repository", {"recovery_ends": "394 R2 -: recovers since round 104, without progress and requests since "
                           "round 264"} if is_found else {},
            node_status=replaced(f"node_id = {R2} and status = 'OPERATIONAL' and round > 100", round="1300"), **changes,
        )
        for name, is_found, changes in (
            ("", True, {}), (" with a pause", False, {"fault_event": fault("pause", 300, R2, 301)}),
            (" before a pause", True, {"fault_event": fault("pause", 1301, R2, 1302)}),
        )
    },
    # repository: offers_when_operational, R2R-Recovery arrives in round 110
    **{
        f"R2C-Probe in round {at}, {is_operational}": case(
            "repository", {"offers_when_operational": f"{at} R2 -: answers a probe as operational, and recovers since "
                           "round 104"} if is_found else {},
            message=repository("R2C-Probe", "R2", "b2", at, **of(R2, P1), is_operational=is_operational),
        )
        for at, is_operational, is_found in ((109, True, True), (109, False, False), (110, True, False))
    },
    # repository: registrations_spread
    "a registration that a member lacks": case(
        "repository",
        {"registrations_spread": "1400 R2 -: confirms the registration of P2 as publisher, and R3 does not have it"},
        message=repository("R2C-Confirm", "R2", "b2", 1400, **of(R2, P1), client=P2, role="publisher", number=999),
    ),
    "a registration that all members have": case(
        "repository", {},
        message=repository("R2C-Confirm", "R2", "b2", 1400, **of(R2, P1), client=P2, role="publisher", number=150),
    ),
    # repository: leaves_covered, R1 leaves in round 240
    "a member does not know that a repository leaves": case(
        "repository", {"leaves_covered": "1400 R2 -: leaves, and R3 does not know that it leaves"},
        message=repository("Gossip-LEAVE", "R2", "b2", 1400, **of(R2, R3)),
    ),
    "members lack a message of a repository that leaves": case(
        "repository", {
            "leaves_covered": [f"240 R1 P1:: leaves, and {member} has not told that it has number 99 of its publisher"
                               for member in ("R2", "R3")],
            "tells_stored": "240 R1 P1:: gossip lacks number 99 of its publisher, acknowledged in round 230",
        },
        message=repository("R2P-ACK", "R1", "b1", 230, **of(R1, P1), designation=4, incarnation=0, single=[99]),
    ),
    # repository: tells_stored
    "gossip lacks a message": case(
        "repository",
        {"tells_stored": "1494 R2 P1:: gossip lacks number 99 of its publisher, acknowledged in round 1490"},
        message=repository("R2P-ACK", "R2", "b2", 1490, **of(R2, P1), designation=218, incarnation=0, single=[99]),
    ),
    "no gossip after a message": case(
        "repository", {},
        message=repository("R2P-ACK", "R2", "b2", 1494, **of(R2, P1), designation=218, incarnation=0, single=[99]),
    ),
    # repository: repeats_broker_up
    **{
        f"Broker-Up{name}": case("repository", {"repeats_broker_up": "1300 b1 -: tells b2 once that it is up, and has "
                                                "no answer"} if is_found else {},
                                 message=[repository("Broker-Up", "b1", "b2", 1300, broker=0, up_round=1290), *answers],
                                 **changes)
        for name, is_found, answers, changes in (
            ("", True, [], {}),
            (" with an answer", False, [repository("Broker-Up-ACK", "b2", "b1", 1302, broker=0, up_round=1290)], {}),
            (" with the answer to another one", True,
             [repository("Broker-Up-ACK", "b2", "b1", 1302, broker=0, up_round=1280)], {}),
            (" before a pause", False, [], {"fault_event": fault("pause", 1301, 1, 1302)}),
            (" after a pause", True, [], {"fault_event": fault("pause", 1298, 1, 1300)}),
        )
    },
    # repository: removal_told
    "a removal that is not told": case(
        "repository",
        {"removal_told": "204 R2 -: is called in round 200 to remove R1, and does not tell that it has left"},
        control_call=replaced("kind = 'leave'", kind="'remove'", node_id=str(R2), peer=str(R1), round="200"),
    ),
    # repository: cuts_in_time, all members know the deregistration in round 170
    "a late message in the cut of a deregistration": case(
        "repository", {"cuts_in_time": "260 R2 P1:5: the cut of the deregistration of P2 has it, and all members knew "
                       "the deregistration in round 170"},
        state_registration=replaced(
            f"client = {P2} and node_id = {R2}", is_registered="false", number="150", cut="array(named_struct("
            f"'publisher', cast({P1} as bigint), 'incarnation', cast(0 as bigint), 'n', cast(3 as bigint)))"),
    ),
    "the messages before a deregistration in its cut": case(
        "repository", {}, state_registration=replaced(
            f"client = {P2} and node_id = {R2}", is_registered="false", number="150", cut="array(named_struct("
            f"'publisher', cast({P1} as bigint), 'incarnation', cast(0 as bigint), 'n', cast(2 as bigint)))"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    root = tmp_path_factory.mktemp("messages")
    return {name: run_all(run_configs([run]), sail, root) for name, run in RUNS.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_audits_find_exactly_the_violations(runs: dict[str, Store], name: str) -> Planting:
    one = CASES[name]
    [copy] = yield [Plant(runs[one.run], **one.changes)]
    assert lines(copy) == one.found
