"""Audits of single messages find each rule that planted messages break, and nothing in runs with faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.copies import Copy, Plant, Planting

from pipelines.engines.session import Session
from pipelines.protocols import protocol_named
from pipelines.testing import Change, added, removed, replaced, rows, run_all, run_configs

HUNTED = Path(__file__).parents[1] / "mutation" / "hunted"
FAULTS: Mapping[str, list[dict[str, Any]]] = {
    "delta": [{"kind": "crash", "node": "C", "round": 40, "until": 52}],
    "ginger_late": [{"kind": "crash", "node": "B3", "round": 400, "until": 410}],
    "repository": [{"kind": "crash", "node": "R2", "round": 98, "until": 104}],
}


class Played:
    """A run of a hunted scenario, and messages to plant in it."""

    def __init__(self, name: str, session: Session, root: Path) -> None:
        """Plays the run."""
        parts = yaml.safe_load((HUNTED / f"{name}.yaml").read_text("utf-8"))
        self.name = name
        self.protocol = str(parts["protocol"]["name"])
        faults = [*parts.get("faults", ()), *FAULTS[name]]
        self.store = run_all(run_configs([{**parts, "faults": faults}]), session, root / name)
        self.ids = {one: node for node, one in rows(self.store, "node", "node_id", "name")}
        self._next = 1_000_000

    def message(
        self, kind: str, src: str, dst: str, sent: int, due: int | None = None, of: tuple[str, int] | None = None,
        at: int | None = None, **body: Any,
    ) -> Change:  # fmt: skip
        """Returns the change that adds a message; ``of`` is a call, ``at`` its id."""
        self._next += 1
        source, seq = (None, None) if of is None else (self.ids[of[0]], of[1])
        return added(
            run_id=0, message_id=self._next if at is None else at, kind=kind, src=self.ids[src], dst=self.ids[dst],
            sent_round=sent, due_round=sent + 1 if due is None else due, fate="delivered", source=source,
            source_seq=seq, body=json.dumps(body),
        )  # fmt: skip

    def plant(self, **changes: Change | list[Change]) -> Plant:
        return Plant(self.store, **changes)


Wanted = Mapping[str, str | set[str]]
"""By guarantee: words in the detail of a violation, or the details of all violations."""
Planted = list[tuple[Plant, Wanted]]


def missing(copy: Copy, wanted: Wanted) -> Wanted:
    """Returns the guarantees without a wanted violation, with these."""
    found: dict[str, set[str]] = {}
    for row in copy.violations:
        found.setdefault(row["guarantee"], set()).add(row["detail"])

    def is_found(name: str, words: str | set[str]) -> bool:
        details = found.get(name, set())
        return details == words if isinstance(words, set) else any(words in detail for detail in details)

    return {name: words for name, words in wanted.items() if not is_found(name, words)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("messages")


@pytest.fixture(scope="module")
def played(sail: Session, root: Path) -> Callable[[str], Played]:
    """Returns a function that plays the run of a hunted scenario once."""
    return cache(lambda name: Played(name, sail, root))


@pytest.mark.parametrize("name", FAULTS)
def test_a_run_breaks_no_rule_and_planted_messages_break_each(played: Callable[[str], Played], name: str) -> Planting:
    run = played(name)
    planted = PLANTS[name](run)
    clean, *copies = yield [run.plant(), *(plant for plant, _ in planted)]
    assert clean.broken & {one.name for one in protocol_named(run.protocol).audits} == set()
    assert [missing(copy, wanted) for copy, (_, wanted) in zip(copies, planted, strict=True)] == [{}] * len(planted)


def plant_delta(run: Played) -> Planted:
    status = min(row for row in rows(run.store, "message", "message_id", "src", "dst", "sent_round", "kind")
                 if row[4] == "STATUS" and row[1] == run.ids["C"])  # fmt: skip
    names_of = {node: name for name, node in run.ids.items()}
    src, dst = (names_of[status[place]] for place in (1, 2))
    late = max(seq for seq, source in rows(run.store, "publication", "source_seq", "source") if source == run.ids["G"])
    found = run.plant(message=[
        removed(f"kind = 'STATUS' and src = {run.ids['C']} and dst <> {run.ids['B']} and sent_round >= 52"),
        run.message("PUB", "A", "D", 90, of=("A", 1)),
        run.message("CONF", "C", "B", 39, 5000, of=("A", 1)),
        run.message("PUB", "A", "B", 99, of=("A", 9)), run.message("PUB", "A", "B", 99, of=("A", 8)),
        run.message("PUB", "B", "C", 51, 53, of=("A", 1)),
        run.message("PAR_SUB", "C", "B", 53, entries=[]), run.message("PAR_SUB", "C", "D", 55, entries=[]),
        # A member that claims to be DETACHED excuses nothing.
        run.message("STATUS", "B", "C", 52, 55, status="DETACHED"),
        replaced(f"kind = 'STATUS' and src = {run.ids['D']} and dst = {run.ids['C']} and sent_round >= 52",
                 body="replace(body, 'OPERATIONAL', 'DETACHED')"),
        run.message("PUB", src, dst, status[3], of=("A", 1), at=-1),
        run.message("PUB", "B", "A", 95, of=("A", 1)),
        run.message("PUB", "G", "C", 52, of=("G", late),
                    guide=[{"path": [run.ids["C"], run.ids["B"]], "is_done": False}]),
    ], state_detector=[removed(f"node_id = {run.ids['A']} and source = {run.ids['A']}")])  # fmt: skip
    return [(found, {
        "answered_peers": "which has not answered", "last_words": "before CONF from there comes",
        "order_of_resends": "behind publication 9", "incarnations": "meant for an earlier incarnation",
        "tells_peers": f"does not tell node {run.ids['D']}",
        "answers_in_turn": f"answers node {run.ids['D']} before node {run.ids['B']} has",
        "status_first": "leaves behind PUB", "own_messages": "takes its own PUB",
        "guided_again": "without a path to node", "own_number": "which has no row",
    })]  # fmt: skip


def named(*brokers: int) -> list[dict[str, int]]:
    """Returns failed brokers that have not recovered before, as a vote names them."""
    return [{"broker": broker, "incarnation": 0} for broker in brokers]


def plant_ginger(run: Played) -> Planted:
    """B1 and B2 elect B1 in round 223; B4 joins in round 268; B3 has its new parent B2 in round 416."""
    b0, b1, b2, b4 = (run.ids[name] for name in ("B0", "B1", "B2", "B4"))
    vote = f"kind = 'RootElection' and src = {b1}"
    view = f"kind = 'TreeViewUpdate' and src = {b1} and dst = {run.ids['C5']} and sent_round = 223"
    found = run.plant(message=[
        removed(f"kind = 'TreeViewUpdate' and dst = {b4} and sent_round = 427"),
        replaced(vote, body="replace(body, '\"vote\":1', '\"vote\":-1')"), replaced(view, body="'{\"seen\":[]}'"),
        run.message("Failed", "B4", "B3", 200, failed=b2), run.message("Metadata", "B2", "B3", 230, of=("C5", 2)),
        run.message("RootElection", "B2", "B1", 300, vote=0, brokers=named(b2, b4)),
        run.message("ParentResponse", "B3", "B4", 414, answer="declined"),
        run.message("ParentRequest", "B3", "B4", 450, topics=[]),
        run.message("TotalAck", "B3", "B2", 100, of=("C5", 1), covered=[run.ids["B3"], b4]),
        # B1 reports what B0 has reported, before and after it learns in round 221 that B0 has failed.
        run.message("TotalAck", "B0", "B1", 100, of=("C5", 1), covered=[b0]),
        run.message("TotalAck", "B1", "B3", 220, of=("C5", 1), covered=[b0]),
        run.message("TotalAck", "B1", "B2", 222, of=("C5", 1), covered=[b0]),
    ])  # fmt: skip
    reports = {
        f"reports to node {b2} that node {node} has locked the key items, which no present child has reported"
        for node in (b0, b4)
    }
    return [(found, {
        "reports_present": reports, "absent_silent": "and has not joined", "sends_view": "does not send its view",
        "elects_highest": "has residual degree 0 itself", "shows_electors": f"does not show elector {b2}",
        "holds_messages": "during its repair from round 223 to 235", "answers_votes": "does not answer the vote",
        "newcomer_answers": "and answers declined", "asks_ancestors_first": f"asks its sibling {b4} before node {b1}",
    })]  # fmt: skip


def plant_repository(run: Played) -> Planted:
    """S2 acknowledges P1's first message at its repository; P1 deregisters P2 in round 150; R2 is back in round 104."""
    p1, p2, r1, r2, s1, s2 = (run.ids[name] for name in ("P1", "P2", "R1", "R2", "S1", "S2"))
    names_of = {node: name for name, node in run.ids.items()}
    acks = [json.loads(row[1]) | {"dst": row[2]} for row in rows(run.store, "message", "kind", "body", "dst")
            if row[0] == "S2R-ACK"]  # fmt: skip
    ack = next(one for one in acks if one["dst"] == one["steering"] and (one["origin"], one["topic"]) == (s2, "news"))
    slots = {row[:3]: row[3:] for row in rows(
        run.store, "state_slot", "node_id", "topic", "seq", "publisher", "incarnation", "n", "source_seq")}  # fmt: skip
    publisher, incarnation, n, source_seq = slots[ack["steering"], "news", ack["runs"][0]["first"]]
    key = {"publisher": publisher, "incarnation": incarnation, "n": n}
    listed = {"source": publisher, "source_seq": source_seq, "incarnation": incarnation, "n": n}
    of_r1 = {"topic": "news", "origin": r1}
    found = run.plant(message=[
        run.message("R2S-Rectify", names_of[ack["steering"]], "b3", 1400, to=[s2], topic="news", listed=[listed],
                    origin=ack["steering"], designation=ack["designation"], steering=ack["steering"], sync=0),
        run.message("S2R-ACK", "S1", "b1", 1400, to=[r1], topic="news", origin=s1, designation=999, steering=r1,
                    runs=[{"first": 1, "last": 1}]),
        run.message("R2S*-Persistent", "R1", "b1", 1400, to=[s1], **of_r1, seq=1, incarnation=0, n=1,
                    receivers=[{"client": s1, "designation": 777, "prev": 0}]),
        run.message("R2P-ACK", "R1", "b1", 120, to=[p1], **of_r1, designation=1, incarnation=0, single=[99]),
        run.message("R2R-NAK", "R1", "b1", 1400, to=[r2], **of_r1, keys=[key]),
        run.message("R2R-NAK", "R2", "b2", 104, to=[r1], topic="news", origin=r2, keys=[key]),
        run.message("R2C-Probe", "R2", "b2", 104, to=[p1], topic="news", origin=r2, is_operational=True),
        run.message("R2C-Confirm", "R2", "b2", 1400, to=[p1], topic="news", origin=r2, client=p2, role="publisher",
                    number=999),
        run.message("R2P-ACK", "R2", "b2", 1390, to=[p1], topic="news", origin=r2, designation=1, incarnation=0,
                    single=[99]),
        run.message("Gossip-LEAVE", "R2", "b2", 1400, to=[run.ids["R3"]], topic="news", origin=r2),
        run.message("Broker-Up", "b1", "b2", 1300, broker=run.ids["b1"], up_round=1290),
    ], control_call=[replaced("kind = 'leave'", kind="'remove'", node_id=str(r2), peer=str(r1),
                              round="cast(200 as bigint)")], state_registration=[replaced(
        f"client = {p2}", is_registered="false", number="cast(150 as bigint)", cut="array(named_struct('publisher', "
        f"cast({p1} as bigint), 'incarnation', cast(0 as bigint), 'n', cast(3 as bigint)))",
    )])  # fmt: skip
    late = run.plant(node_status=[
        replaced(f"node_id = {r2} and status = 'OPERATIONAL' and round > 100", round="cast(1300 as bigint)"),
    ])  # fmt: skip
    silent = run.plant(message=[removed(f"kind = 'R2R-Recovery' and dst = {r2} and sent_round > 100")])
    return [(found, {
        "rectifies_unacknowledged": "whose acknowledgement it knows", "acknowledges_announced": "is not announced in",
        "asked_to_steer": "by designation 777, and is never asked", "tells_stored": "gossip lacks number 99",
        "asks_for_missing": "R2R-NAK requests number", "recovers_missing": f"is OPERATIONAL without number {n}",
        "cuts_in_time": "the cut of the deregistration of P2 has it",
        "offers_when_operational": "answers a probe as operational, and recovers since round 104",
        "registrations_spread": "and R3 does not have it", "repeats_broker_up": "tells b2 once that it is up",
        "removal_told": "is called in round 200 to remove R1",
        "leaves_covered": "R3 does not know that it leaves",
    }), (found, {"leaves_covered": "has not told that it has number 99"}),
    (late, {"recovery_ends": "recovers since round 104, without progress"}),
    (silent, {"recovers_missing": f"is OPERATIONAL before node {run.ids['R1']} has answered"})]  # fmt: skip


PLANTS: Mapping[str, Callable[[Played], Planted]] = {
    "delta": plant_delta, "ginger_late": plant_ginger, "repository": plant_repository,
}  # fmt: skip


def test_a_report_comes_later_if_a_hello_arrives_from_a_node_that_is_down_again(sail: Session, root: Path) -> Planting:
    """A recovers for one round; its HELLO reaches B in round 55, and B learns of the second crash in round 66."""
    parts = {
        "name": "again",
        "protocol": {"name": "gossipsub", "relay": False, "detection_rounds": 5},
        "overlay": {"links": [["A", "B", 6]]},
        "workload": {"subscriptions": [{"at": name, "round": 0, "topic": "a"} for name in "AB"]},
        "faults": [
            {"kind": "crash", "node": "A", "round": first, "until": last} for first, last in [(43, 49), (50, 80)]
        ],
        "time": {"rounds": 120, "round_ms": 10},
    }
    store = run_all(run_configs([parts]), sail, root)
    [b] = [row[0] for row in rows(store, "node", "node_id", "name") if row[1] == "B"]

    def announced(round_: int) -> Plant:
        """Changes B's announcements to A to IHAVE messages of a round."""
        rounds = {"sent_round": f"cast({round_} as bigint)", "due_round": f"cast({round_} + 6 as bigint)"}
        where = f"src = {b} and kind = 'ANNOUNCE' and sent_round > 0"
        return Plant(store, message=replaced(where, kind="'IHAVE'", **rounds))

    before, after = yield [announced(65), announced(67)]
    assert before.found("forgets_crashed") == []
    assert after.found("forgets_crashed") != []
