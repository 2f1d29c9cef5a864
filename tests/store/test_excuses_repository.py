"""Excuses of protocol repository concern single publications: their way, or their time.

Each run delivers everything; its history is then changed, and the audits tell whether that is excused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame
from support.copies import Plant, Planting
from support.repository.scenes import NEWS, calls, chain, down

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import (
    Change,
    added,
    copied,
    removed,
    replaced,
    run_all,
    run_configs,
)

R1, R2, P, S1, S2, S3 = range(3, 9)
OWNED = {NEWS: {"owner": "s3", "publishers": ["p"], "subscribers": ["s1", "s2"]}}
OWNED_LATE = {NEWS: {"owner": "s3", "publishers": ["p"], "subscribers": ["s1"]}}
END = 1900
LATE = 1000
FIRST = "coalesce(source_seq, 0) = 1"
LACKS = {"stored_delivered", "sync_passes_nothing"}
DIVIDED = {*LACKS, "all_or_none"}


def ending(round_: int) -> dict[str, Any]:
    """Returns a run in which the subscription of s1 ends in a round; p publishes in round 100."""
    parts = chain(published=[100], rounds=END)
    parts["workload"]["subscriptions"][0]["until"] = round_
    return parts


def register(kind: str, round_: int, peer: str, role: str) -> list[dict[str, Any]]:
    return [calls(kind, "s3", round_, topic=NEWS, peer=peer, role=role)]


def registered_again(peer: str, role: str, *faults: dict[str, Any]) -> dict[str, Any]:
    """Returns a run in which owner s3 deregisters a client in round 300, and registers it again in round 400."""
    made = [*register("deregister", 300, peer, role), *register("register", 400, peer, role)]
    return chain(published=[100], rounds=END, settings={"topics": OWNED}, faults=[*faults], calls=made)


class Case(NamedTuple):
    """A run, the change of its deliveries, the guarantees that break, and those whose breach is excused.

    Attributes:
        more: Changes of other tables, by name.
    """

    parts: dict[str, Any]
    change: Change
    broken: set[str]
    excused: frozenset[str] = frozenset()
    more: Mapping[str, Change] = MappingProxyType({})


def lacking(subscriber: int) -> Change:
    return removed(f"subscriber = {subscriber}")


def kept(issued_round: int, *, is_acknowledged: bool = True) -> Change:
    """Returns a copy at the publisher, beside those that it has."""
    publication = {"source": P, "source_seq": 9, "issued_round": issued_round, "matches": []}
    return added(
        run_id=0, node_id=P, topic=NEWS, n=9, is_acknowledged=is_acknowledged, sent_round=issued_round,
        publication=publication,
    )  # fmt: skip


def as_played(frame: DataFrame) -> DataFrame:
    return frame


UNCONFIRMED = replaced(f"subscriber = {S2}", confirmed_round="null")

CASES = {
    "a subscription with an end": Case(ending(500), lacking(S1), LACKS),
    "a subscription that ends before": Case(ending(103), as_played, set()),
    "a subscriber that is gone later": Case(
        chain(published=[100], rounds=END, faults=[down("s1", 400)]), lacking(S1), LACKS
    ),
    "a subscriber that is gone at once": Case(
        chain(published=[100], rounds=END, faults=[down("s1", 102)]), as_played, set()
    ),
    "an owner that is down for a while": Case(
        chain(published=[200], rounds=END, settings={"topics": OWNED_LATE}, faults=[down("s3", 300, 305)],
              calls=register("register", 50, "s2", "subscriber")), lacking(S2), DIVIDED,
    ),
    "a publisher that is deregistered later": Case(
        chain(published=[100], rounds=END, settings={"topics": OWNED},
              calls=register("deregister", 300, "p", "publisher")), lacking(S2), DIVIDED - {"sync_passes_nothing"},
    ),
    "a subscriber that is deregistered later": Case(
        chain(published=[100], rounds=END, settings={"topics": OWNED},
              calls=register("deregister", 300, "s2", "subscriber")), lacking(S2), DIVIDED - {"sync_passes_nothing"},
    ),
    "a delivery long before a broker is gone": Case(
        chain(published=[100], rounds=END, faults=[down("b3", 900)]), copied(f"subscriber = {S1}", round="round + 1"),
        {"exactly_once"},
    ),
    "a delivery after a broker is gone": Case(
        chain(published=[100], rounds=END, faults=[down("b3", 900)]), copied(f"subscriber = {S1}", round="950"),
        set(), frozenset({"exactly_once"}),
    ),
    "a loss long before a broker is gone": Case(
        chain(published=[100], rounds=END, faults=[down("b3", LATE)]), lacking(S1), LACKS
    ),
    "a loss when a broker is gone": Case(
        chain(published=[LATE - 2], rounds=END, faults=[down("b3", LATE)]), lacking(S1), set(), frozenset(LACKS)
    ),
    "repositories that are gone long after": Case(
        chain(published=[100], rounds=END, faults=[down("r1", LATE), down("r2", LATE)]), lacking(S1), LACKS
    ),
    "a publisher and a member that are gone long after": Case(
        chain(published=[100], rounds=END, faults=[down("p", LATE), down("r2", LATE)]), lacking(S1),
        {"stored_delivered", "stored_once"}, more={"state_slot": removed(f"node_id = {R1} and {FIRST}")},
    ),
    "a subscriber that is deregistered, and a member that is gone after": Case(
        chain(published=[100], rounds=END, settings={"topics": OWNED}, faults=[down("r2", LATE)],
              calls=register("deregister", LATE - 20, "s2", "subscriber")),
        lacking(S2), DIVIDED - {"sync_passes_nothing"},
    ),
    "a publisher that is deregistered after nobody stored its message": Case(
        chain(published=[100], rounds=END, settings={"topics": OWNED},
              calls=register("deregister", LATE, "p", "publisher")),
        removed("source_seq = 1"), {"stored_delivered", "stored_once", "kept_until_stable"},
        more={
            "state_slot": removed(FIRST),
            "publication": replaced("source_seq = 1", confirmed_round="null"),
        },
    ),
    "a message that is expected beside a dead publisher": Case(
        chain(published=[100], rounds=END, faults=[down("p", 400)]), as_played, {"nothing_pending"},
        more={"state_expected": added(run_id=0, node_id=S1, topic=NEWS, seq=9, source=P, source_seq=9)},
    ),
    "a copy that a dead member had time to store": Case(
        chain(published=[100], rounds=END, faults=[down("r2", LATE)]), as_played, {"nothing_pending"},
        more={"state_unstable": kept(100)},
    ),
    "a copy that a dead member had no time to store": Case(
        chain(published=[200], rounds=END, faults=[down("r2", 150)]), as_played, set()
    ),
    "a copy of a publisher whose new registration its owner may have lost": Case(
        registered_again("p", "publisher", down("s3", 401, 405)), as_played, set(), more={"state_unstable": kept(100)},
    ),
    "a copy of a publisher that is registered again before its owner crashes": Case(
        registered_again("p", "publisher", down("s3", 450, 455)), as_played, {"nothing_pending"},
        more={"state_unstable": kept(100)},
    ),
    "a subscription whose registration the owner may have lost": Case(
        registered_again("s2", "subscriber", down("s3", 401, 405)), as_played, set(),
        more={"subscription": UNCONFIRMED},
    ),
    "a subscription that is registered again before the owner crashes": Case(
        registered_again("s2", "subscriber", down("s3", 450, 455)), as_played, {"subscription_confirmed"},
        more={"subscription": UNCONFIRMED},
    ),
    "the last repository leaves, and the other one was down when it should join": Case(
        chain(published=[300], rounds=END, faults=[down("r2", 45, 60)],
              calls=[calls("join", "r2", 50), calls("leave", "r1", 200)]), as_played, set(),
    ),
    "the last repository leaves after the other one has joined": Case(
        chain(published=[300], rounds=END, calls=[calls("join", "r2", 50), calls("leave", "r1", 200)]), lacking(S1),
        LACKS,
    ),
    "the only member with a message is removed by a repository that joins": Case(
        chain(published=[100, 400], rounds=END, faults=[down("s1", 90, 300)],
              calls=[calls("join", "r2", 150), calls("remove", "r2", 151, peer="r1")]), as_played, set(),
    ),
    "a member is removed long after the other one has joined": Case(
        chain(published=[1000], rounds=END, calls=[calls("join", "r2", 50), calls("remove", "r2", 950, peer="r1")]),
        lacking(S1), LACKS,
    ),
    "a member dies soon after the other one has joined": Case(
        chain(published=[100, 1000], rounds=END, calls=[calls("join", "r2", 140)], faults=[down("r1", 141)]), as_played,
        set(),
    ),
    "a publication long after a dead member is removed by a repository that joins": Case(
        chain(published=[100, 1000], rounds=END, faults=[down("r1", 141)],
              calls=[calls("join", "r2", 140), calls("remove", "r2", 300, peer="r1")]),
        removed(f"subscriber = {S1} and source_seq = 2"), LACKS,
    ),
    "a publication while no member serves": Case(
        chain(published=[100, 200], rounds=END, faults=[down("r1", 141)],
              calls=[calls("join", "r2", 140), calls("remove", "r2", 300, peer="r1")]),
        removed(f"subscriber = {S1} and source_seq = 2"), LACKS,
    ),
    "a publication before no member serves": Case(
        chain(published=[100, 138], rounds=END, faults=[down("r1", 141)],
              calls=[calls("join", "r2", 140), calls("remove", "r2", 300, peer="r1")]),
        removed("source_seq = 2"), set(),
    ),
    "a repository that has waited for a dead member dies": Case(
        chain(published=[100, 145], rounds=END, settings={"void_rounds": 20},
              faults=[down("r1", 141), down("r2", 1300)], calls=[calls("join", "r2", 140)]), as_played, set(),
    ),
    "a member dies after the other one has joined in a partition": Case(
        chain(published=[100, 950], rounds=END, calls=[calls("join", "r2", 50)],
              faults=[down("r1", 900), {"kind": "partition", "groups": [["r2"]], "round": 40, "until": 900}]),
        as_played, set(),
    ),
    "the only member of a bundle is removed from another bundle": Case(
        chain(published=[100], rounds=END, calls=[calls("remove", "r1", 50, peer="r2")],
              settings={"bundles": [{"repositories": ["r2"], "topics": [NEWS]}, {"topics": ["other"]}]}),
        lacking(S1), LACKS,
    ),
    "a message that a member lacks after its removal from another bundle": Case(
        chain(published=[100], rounds=END, calls=[calls("remove", "r1", 50, peer="r2")],
              settings={"bundles": [{"repositories": ["r2"], "topics": [NEWS]}, {"topics": ["other"]}]}),
        as_played, {"stored_once", "kept_until_stable", "all_or_none"},
        more={"state_slot": removed(f"node_id = {R2} and {FIRST}")},
    ),
    "a broker that crashes as another one recovers": Case(
        chain(published=[100], rounds=END, faults=[down("b2", 300, 306), down("b1", 306, 336)]), as_played, set()
    ),
    "a broker that is down as another one recovers": Case(
        chain(published=[100], rounds=END, faults=[down("b2", 300, 306), down("b1", 304, 336)]), as_played, set()
    ),
    "a broker that crashes shortly while another one tells it of its recovery": Case(
        chain(published=[100], rounds=END,
              faults=[down("b1", 300, 303), {"kind": "break", "links": [["b1", "b2"]], "round": 303, "until": 450},
                      down("b2", 390, 391)]), as_played, set()
    ),
    "a registration that arrives earlier than the gossip of a member in the same round": Case(
        chain(published=[100], rounds=END, settings={"topics": OWNED, "assist_rounds": 1, "gossip_rounds": 1},
              calls=register("register", 300, "s3", "subscriber")), as_played, set()
    ),
    "deliveries of the baseline when a link duplicates messages": Case(
        chain(published=[100, 150], rounds=END, settings={"baseline": True},
              faults=[{"kind": "duplicate", "rate": 1.0, "round": 140, "until": 200}]),
        as_played, set(), frozenset({"exactly_once"}),
    ),
    "deliveries of the baseline before a link duplicates messages": Case(
        chain(published=[100], rounds=END, settings={"baseline": True},
              faults=[{"kind": "duplicate", "rate": 1.0, "round": 140, "until": 200}]),
        copied(f"subscriber = {S1}", round="round + 1"), {"exactly_once"},
    ),
    "a copy that no member has acknowledged": Case(
        chain(published=[200], rounds=END, faults=[down("r2", 150)]), as_played, {"nothing_pending"},
        more={"state_unstable": kept(200, is_acknowledged=False)},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("excuses_repository")


@pytest.fixture(scope="module")
def store(sail: Session, root: Path) -> Store:
    """The runs of all cases."""
    return run_all(run_configs([case.parts for case in CASES.values()]), sail, root)


@pytest.mark.parametrize("name", CASES)
def test_an_excuse_concerns_its_publication(store: Store, name: str) -> Planting:
    case = CASES[name]
    [run] = yield [Plant(store, list(CASES).index(name), delivery=case.change, **case.more)]
    assert run.broken == case.broken
    assert {row["guarantee"] for row in run.violations if row["excused"]} == case.excused


def test_a_run_with_link_faults_has_time_for_all_fetches(sail: Session, root: Path) -> Planting:
    """After a partition, r1 fetches 100 messages one by one over links of 20 rounds: the run is undecided."""
    parts = chain(
        published=[30 + number for number in range(100)],
        rounds=1800,
        settings={"fetch_batch": 1},
        faults=[{"kind": "partition", "groups": [["r1"]], "round": 25, "until": 140}],
    )
    parts["overlay"]["links"] = [["b1", "b2", 20], ["b2", "b3", 20]]
    [run] = yield [Plant(run_all(run_configs([parts]), sail, root))]
    assert (run.verdict, run.broken) == ("unknown", set())
