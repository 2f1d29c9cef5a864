"""Audits of single messages of repository find the violations of their rules, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from support.cases import Case, case, fault, hunted, lines, messages, store_of
from support.copies import Planting

from pipelines.store.store import Store
from pipelines.testing import Change, removed, replaced

NODES = ["b1", "b2", "b3", "R1", "R2", "R3", "P1", "P2", "S1", "S2"]
R1, R2, R3, P1, P2, S1, S2 = range(3, 10)
# P1 deregisters P2 in round 150. R2 is RECOVERING from round 104. R1 leaves in round 210.
RUNS = {"repository": hunted("repository", {"kind": "crash", "node": "R2", "round": 98, "until": 104})}
repository = messages(NODES.index)


def of(origin: int, to: int) -> dict[str, Any]:
    """Returns the fields of a message on topic news between a client and a repository, or two repositories."""
    return {"to": [to], "topic": "news", "origin": origin}


def late(kind: str) -> Change:
    """Returns the change that delays a message with P2's first publication to R3 until round 999."""
    where = f"kind = '{kind}' and dst = {R3} and source = {P2} and source_seq = 1"
    return replaced(where, due_round="999")


CASES: dict[str, Case] = {
    **{f"the run {name}": case(name, {}) for name in RUNS},
    # sends_to_matching: only S1 and S2 subscribe
    "a message to a client without a subscription": case(
        "repository", {"sends_to_matching": "60 P1 P1:1: Message goes to P2, which has no matching subscription"},
        message=repository("Message", "P1", "b1", 60, of="P1:1", fate="lost_link", to=[R1, P2], topic="news",
                           origin=P1),
    ),
    "a notification of a client without a subscription": case(
        "repository",
        {"sends_to_matching": "64 R1 P1:1: R2S*-Persistent goes to P2, which has no matching subscription"},
        message=repository("R2S*-Persistent", "R1", "b1", 64, of="P1:1", fate="lost_link", to=[S1, P2], topic="news",
                           origin=R1, receivers=[]),
    ),
    "a message that a broker forwards to a client without a subscription": case(
        "repository", {}, message=repository("Message", "b1", "b2", 61, of="P1:1", fate="lost_link", to=[P2],
                                             topic="news", origin=P1),
    ),
    # rectifies_unacknowledged, R3 has the acknowledgement of P1's first message in round 67
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
    # R1 leaves in round 210
    "R2S-Rectify of a repository that leaves later": case(
        "repository", {"rectifies_unacknowledged": "150 R1 P1:1: lists the message to S1, whose acknowledgement it "
                       "knows since round 66"},
        message=repository("R2S-Rectify", "R1", "b1", 150, to=[S1], topic="news", origin=R1, designation=9, steering=R1,
                           sync=0, listed=[{"source": P1, "source_seq": 1, "incarnation": 0, "n": 1}]),
    ),
    "R2R-NAK of a repository that leaves later": case(
        "repository", {"asks_for_missing": "66 R1 P2:: R2R-NAK requests number 1 of its publisher, which it has since "
                       "round 64"},
        message=repository("R2R-NAK", "R1", "b1", 66, to=[R2], topic="free", origin=R1,
                           keys=[{"publisher": P2, "incarnation": 0, "n": 1}]),
    ),
    **{
        f"gossip in round {at} to a repository that leaves": case(
            "repository", {"tells_stored": f"{at} R2 P2:: gossip lacks number 99 of its publisher, acknowledged in "
                           f"round {at - 4}"} if is_found else {},
            message=[
                repository("R2P-ACK", "R2", "b2", at - 4, **of(R2, P2), designation=4, incarnation=0, single=[99]),
                repository("Gossip-ACK", "R2", "b2", at + 1, to=[R3], origin=R2, topic="news", base=5, frontier=5,
                           entries=[{"seq": 99, "publisher": P2, "incarnation": 0, "n": 99}], beyond=[]),
            ],
        )
        for at, is_found in ((204, True), (214, False))
    },
    **{
        f"a registration that is confirmed in round {at}": case(
            "repository", {"registrations_spread": [
                f"{at} R2 -: confirms the registration of P2 as publisher, and {member} does not have it"
                for member in lacking]},
            message=repository("R2C-Confirm", "R2", "b2", at, **of(R2, P1), client=P2, role="publisher", number=999),
        )
        for at, lacking in ((209, ("R1", "R3")), (210, ("R3",)))
    },
    # asked_to_steer
    "a repository steers unasked": case(
        "repository", {"asked_to_steer": "1400 R1 -: steers S1 by designation 777, and is never asked"},
        message=repository("R2S*-Persistent", "R1", "b1", 1400, of="P1:1", **of(R1, S1), seq=1, incarnation=0, n=1,
                           receivers=[{"client": S1, "designation": 777, "prev": 0}]),
    ),
    # acknowledges_announced
    "a number that is not announced": case(
        "repository",
        {"acknowledges_announced": "1400 S1 -: acknowledges number 1 of R1, which is not announced in designation 999"},
        message=repository("S2R-ACK", "S1", "b1", 1400, **of(S1, R1), designation=999, steering=R1,
                           runs=[{"first": 1, "last": 1}]),
    ),
    # asks_for_missing
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
    # R3 receives P2's first message on topic free and its order in round 64, and stores it until round 70
    **{
        f"R2R-NAK for a message that has arrived, in round {at}{name}": case(
            "repository", {"asks_for_missing": f"{at} R3 P2:: R2R-NAK requests number 1 of its publisher, which it has "
                           f"since round {since}"} if since else {},
            message=[repository("R2R-NAK", "R3", "b3", at, to=[R2], topic="free", origin=R3,
                                keys=[{"publisher": P2, "incarnation": 0, "n": 1}]), *lost],
        )
        for at, name, since, lost in (
            (64, "", None, []), (65, "", 64, []), (71, "", 64, []),
            (65, " without its order", None, [late("P2R-Order")]), (65, " before the message", None, [late("Message")]),
            (71, " long before the message", 70, [late("Message")]),
        )
    },
    **{
        f"R2R-NAK for a message that has arrived, {name}": case(
            "repository", {"asks_for_missing": "66 R3 P2:: R2R-NAK requests number 1 of its publisher, which it has "
                           "since round 64"} if is_found else {},
            message=repository("R2R-NAK", "R3", "b3", 66, to=[R2], topic="free", origin=R3,
                               keys=[{"publisher": P2, "incarnation": 0, "n": 1}]),
            fault_event=fault("crash", at, P2, at + 1),
        )
        for name, at, is_found in (("after a crash of its publisher", 66, False), ("before it crashes", 67, True))
    },
    # recovers_missing
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
    # R2 becomes OPERATIONAL in round 116; an earlier R2R-Recovery of R3 in this round may have ended the recovery
    **{
        f"a prefix in the round of OPERATIONAL, {name}": case(
            "repository", {"recovers_missing": "116 R2 P1:: is OPERATIONAL without number 77 of its publisher, which "
                           "it has requested"} if is_found else {},
            message=[
                repository("R2R-NAK", "R2", "b2", 116, to=[R3], topic="news", origin=R2,
                           keys=[{"publisher": P1, "incarnation": 0, "n": 77}]),
                *(
                    repository("R2R-Recovery", "b2", "R2", 115, to=[R2], topic="news", origin=R3,
                               prefixes=[{"publisher": P1, "incarnation": 0, "n": n}])
                    for n in prefixes
                ),
            ],
        )
        for name, prefixes, is_found in (("after a lower one", (77, 0), False), ("alone", (77,), True))
    },
    # recovery_ends
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
    # offers_when_operational, R2R-Recovery arrives in round 110
    **{
        f"R2C-Probe in round {at}, {is_operational}": case(
            "repository", {"offers_when_operational": f"{at} R2 -: answers a probe as operational, and recovers since "
                           "round 104"} if is_found else {},
            message=repository("R2C-Probe", "R2", "b2", at, **of(R2, P1), is_operational=is_operational),
        )
        for at, is_operational, is_found in ((109, True, True), (109, False, False), (110, True, False))
    },
    # registrations_spread
    "a registration that a member lacks": case(
        "repository",
        {"registrations_spread": "1400 R2 -: confirms the registration of P2 as publisher, and R3 does not have it"},
        message=repository("R2C-Confirm", "R2", "b2", 1400, **of(R2, P1), client=P2, role="publisher", number=999),
    ),
    "a registration that all members have": case(
        "repository", {},
        message=repository("R2C-Confirm", "R2", "b2", 1400, **of(R2, P1), client=P2, role="publisher", number=150),
    ),
    **{
        f"a registration confirmed in round 1700, and gossip that arrives in round {due}": case(
            "repository", {"registrations_spread": "1700 R2 -: confirms the registration of P2 as publisher, and R3 "
                           "does not have it"} if is_found else {},
            message=[
                repository("R2C-Confirm", "R2", "b2", 1700, **of(R2, P1), client=P2, role="publisher", number=999),
                repository("Gossip-ACK", "b2", "R2", due - 1, **of(R3, R2), base=9, frontier=9, entries=[], beyond=[]),
            ],
        )
        for due, is_found in ((1600, False), (1601, True), (1699, True), (1700, False))
    },
    # leaves_covered, R1 leaves in round 240
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
    # leave_ends
    "a departure that members do not tell": case(
        "repository", {"leave_ends": [f"210 R1 -: is called in round 210 to leave topic {topic}, and R2 never tells "
                                      "that it has left" for topic in ("free", "news")]},
        message=replaced(f"kind = 'Gossip-ACK' and src = {R2} and sent_round > 210",
                         body="replace(body, '\"left\":[3]', '\"left\":[]')"),
    ),
    # tells_stored
    "gossip lacks a message": case(
        "repository",
        {"tells_stored": "1494 R2 P1:: gossip lacks number 99 of its publisher, acknowledged in round 1490"},
        message=repository("R2P-ACK", "R2", "b2", 1490, **of(R2, P1), designation=218, incarnation=0, single=[99]),
    ),
    "no gossip after a message": case(
        "repository", {},
        message=repository("R2P-ACK", "R2", "b2", 1494, **of(R2, P1), designation=218, incarnation=0, single=[99]),
    ),
    # repeats_broker_up
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
            (" during a pause of the broker", False, [], {"fault_event": fault("pause", 1298, 0, 1390)}),
            (" during a pause of the receiver", False, [], {"fault_event": fault("pause", 1298, 1, 1390)}),
            (" during a pause of another node", True, [], {"fault_event": fault("pause", 1298, R2, 1390)}),
        )
    },
    # The report of a crash ends the repetition `reroute_rounds` = 5 rounds later, if b1 was up when b2 crashed
    **{
        f"Broker-Up, {up} rounds after a recovery and {crash} after a crash of the receiver": case(
            "repository", {"repeats_broker_up": "1300 b1 -: tells b2 once that it is up, and has no answer"} if is_found
            else {}, message=repository("Broker-Up", "b1", "b2", 1300, broker=0, up_round=1300 - up),
            fault_event=fault("crash", 1300 - crash, 1, 1301 - crash),
        )
        for up, crash, is_found in ((11, 4, False), (11, 5, True), (0, 4, True))
    },
    # removal_told
    "a removal that is not told": case(
        "repository",
        {"removal_told": "204 R2 -: is called in round 200 to remove R1, and does not tell that it has left"},
        control_call=replaced("kind = 'leave'", kind="'remove'", node_id=str(R2), peer=str(R1), round="200"),
    ),
    # cuts_in_time, all members know the deregistration in round 170
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


runs = store_of(RUNS)


@pytest.mark.parametrize("name", CASES)
def test_the_audits_find_exactly_the_violations(runs: Store, name: str) -> Planting:
    of = CASES[name]
    [copy] = yield [of.plant(runs, RUNS)]
    assert lines(copy) == of.found
