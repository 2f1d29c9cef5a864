"""Stories of protocol repository tell what messages wait or waited for: a number, an answer, a repository, or gossip.

Each run ends while its message waits. A message of round t is at the broker of s1 in t + 1, at r1 and s1 in t + 2 and
at r2 and s2 in t + 3; r1 steers p and s1, r2 steers s2, and gossips in rounds that 8 divides. Numbers 1 to 3 are those
of the subscriptions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from support.repository.scenes import NEWS, calls, chain, down, lost

from pipelines.engines.session import Session
from pipelines.sql.query import StoreReader
from pipelines.testing import rows, run_all, run_configs
from pipelines.why import Question, Story, stories as told


class Case(NamedTuple):
    """A run, whose message its story is about, and how it ends."""

    parts: dict[str, Any]
    subscriber: str
    call: int
    text: str


OWNED = {NEWS: {"owner": "p", "publishers": ["p"], "subscribers": ["s1", "s2"]}}
TO_R2 = ("Message", "P2R-Order")
CASES = {
    "a repository that has not said so": Case(
        chain(published=[30], rounds=33), "s1", 1, "at s1, where r1 has not announced that it is stored"
    ),
    "S2R-NAK": Case(
        chain(published=[30], rounds=46, faults=[lost(31, None, "b1", "s1", "Message", "R2S-Retransmit")]),
        "s1", 1, "at s1, where it is stored as number 4, and S2R-NAK requests it",
    ),
    "a message before it": Case(
        chain(published=[30, 31], rounds=38, faults=[lost(31, 32, "b1", "s1", "Message")]),
        "s1", 2, "at s1, where it has arrived, but number 4 must be delivered before it",
    ),
    "R2P-NAK": Case(
        chain(published=[30, 33], rounds=37, faults=[lost(31, 32, "b1", "r1", *TO_R2)]),
        "s1", 1, "at r1, where number 4 is reserved for it, and R2P-NAK requests it from its publisher",
    ),
    "a reserved number": Case(
        chain(published=[30, 33], rounds=37, faults=[lost(31, 32, "b1", "r1", *TO_R2)]),
        "s1", 2, "it is stored as number 5, after number 4, which is reserved for catenation number 1 of p",
    ),
    "gossip": Case(
        chain(published=[33, 34], rounds=39, faults=[lost(35, 36, "b2", "r2", *TO_R2)]),
        "s2", 1, "at r2, where number 4 is reserved for it, and no gossip has named a repository that has it",
    ),
    "R2R-NAK": Case(
        chain(published=[33, 34], rounds=50, faults=[lost(35, 36, "b2", "r2", *TO_R2)]),
        "s2", 1, "at r2, where number 4 is reserved for it, and R2R-NAK requests it from the bundle",
    ),
    "no steering repository of its publisher": Case(
        chain(published=[20], rounds=30, faults=[lost(0, None, "b1", "p", "R2C-Probe")]),
        "s1", 1, "at p, where its publisher has no steering repository yet",
    ),
    "R2P-Recovery": Case(
        chain(published=[30], rounds=36, faults=[lost(0, None, "b1", "p", "R2P-Recovery")]),
        "s1", 1, "at p, where its publisher waits for R2P-Recovery from r1",
    ),
    "no steering repository": Case(
        chain(published=[140], rounds=150, faults=[down("r1", 40), down("r2", 40)]),
        "s1", 1, "at s1, where the subscriber has no steering repository yet",
    ),
    "no acknowledgement": Case(
        chain(published=[30], rounds=35, faults=[lost(30, 32, "p", "b1")]),
        "s2", 1, "at p, where its publisher sent P2R-Order for it in round 30, and no repository has acknowledged it",
    ),
    "a lost order": Case(
        chain(published=[30], rounds=50, faults=[lost(30, None, "p", "b1", "P2R-Order")]),
        "s2", 1, "and no repository has acknowledged it; the P2R-Order sent to b1 in round 42 was lost",
    ),
    "repositories that are all dead": Case(
        chain(published=[100, 150], rounds=700, faults=[down("r1", 120), down("r2", 121)]),
        "s1", 2, "at p, where its publisher waits for r1 (down since round 120), r2 (down since round 121): no "
                 "repository of the topic is up",
    ),
    "a recovery that ends with a second death": Case(
        chain(published=[100, 145], rounds=700, calls=[calls("join", "r2", 140)],
              faults=[down("r1", 141), down("r2", 400)]),
        "s1", 2, "at p, where its publisher waits for r1 (down since round 141), r2 (down since round 400)",
    ),
    "no registration of its publisher": Case(
        chain(published=[30], rounds=60, settings={"topics": {NEWS: {**OWNED[NEWS], "publishers": []}}}),
        "s2", 1, "at p, where its publisher is refused: it is not registered for the topic",
    ),
    "a number of an earlier incarnation": Case(
        chain(published=[30, 33, 60], rounds=64,
              faults=[lost(31, 32, "b1", "r1", *TO_R2), down("p", 35, 36), lost(35, None, "b1", "r1")]),
        "s2", 3, "at p, where its publisher sent P2R-Order for it in round 60, and no repository has acknowledged it",
    ),
    # r2 joins shortly before r1 crashes; p has deleted its first message
    "a message that only a dead member may have": Case(
        chain(published=[100, 400], rounds=1000, calls=[calls("join", "r2", 150)],
              faults=[down("r1", 156), lost(0, 300, "r1", "b1", "R2R-Retransmit")]),
        "s2", 2, "after number 5, which is reserved for catenation number 1 of p; only r1 (down since round 156) may "
                 "have that message: let this member recover, or remove it",
    ),
    "a recovery that a dead member holds up": Case(
        chain(published=[100, 400], rounds=1000, calls=[calls("join", "r2", 150)],
              faults=[down("r1", 156), lost(0, 300, "r1", "b1", "R2R-Recovery")]),
        "s2", 2, "at r2, where the recovery waits for r1 (down since round 156), which may have stored messages: let "
                 "this member recover, or remove it",
    ),
    "R2P-NAK beside a dead member": Case(
        chain(published=[30, 33], rounds=37, faults=[lost(31, 32, "b1", "r1", *TO_R2), down("r2", 20)]),
        "s1", 1, "at r1, where number 4 is reserved for it, and R2P-NAK requests it from its publisher",
    ),
    "an announcement": Case(
        chain(published=[30], rounds=80), "s1", 1,
        "from round 32 to 34: subscribers deliver only stored messages, and r1 announced the storage in round 34",
    ),
    "a lost announcement": Case(
        chain(published=[30], rounds=120, faults=[lost(33, 34, "b1", "s1", "R2S*-Persistent")]), "s1", 1,
        "from round 32 to 57: subscribers deliver only stored messages, and the announcement sent in round 33 was lost",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def stories(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Story]:
    """The stories of all cases. Publisher p issues no other calls, so publication n is its call n."""
    runs = run_configs([case.parts for case in CASES.values()])
    store = run_all(runs, sail, tmp_path_factory.mktemp("why_repository"))
    ids = {(run, name): node for run, node, name in rows(store, "node", "run_id", "node_id", "name")}
    asked = [
        Question(run, ids[run, case.subscriber], ids[run, "p"], case.call) for run, case in enumerate(CASES.values())
    ]
    return dict(zip(CASES, told(StoreReader(sail, store.root), asked), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_a_message_waits_for(stories: dict[str, Story], name: str) -> None:
    """The reason at the subscriber itself is told first."""
    case, verdict = CASES[name], stories[name].verdict
    assert case.text in verdict
    if case.text.startswith(f"at {case.subscriber}, "):
        assert f"it still waits {case.text}" in verdict


def test_a_message_of_which_the_publisher_has_a_copy_waits_for_no_dead_member(stories: dict[str, Story]) -> None:
    assert "down since round" not in stories["R2P-NAK beside a dead member"].verdict


def test_a_number_is_reserved_for_a_message_of_its_incarnation(stories: dict[str, Story]) -> None:
    """The message has the same catenation number as the first message of the incarnation before the crash."""
    assert "is reserved for it" not in stories["a number of an earlier incarnation"].verdict


def test_a_message_waits_for_no_number_of_a_dead_repository(stories: dict[str, Story]) -> None:
    assert "is reserved for it" not in stories["a recovery that ends with a second death"].verdict
