"""A subscriber's actions row by row: BuildRing, configurations, slots, silence (sections 2.2, 3.2; rules K2 to K6)."""

from __future__ import annotations

from typing import Any

import pytest
from support.skipring import SETTINGS, TOPIC

from udfs.nodes.calls import CALLS, Call
from udfs.nodes.context import Context
from udfs.nodes.program import Plan
from udfs.nodes.records import kind_of
from udfs.nodes.world import Flight, RoundDue, RunningNode, step
from udfs.skipring.labels import Label
from udfs.skipring.messages import (
    COR,
    CYC,
    LIN,
    GetConfiguration,
    Introduce,
    IntroduceShortcut,
    PublishNew,
    Remove,
    RequestFor,
    SetData,
)
from udfs.skipring.program import SkipRing
from udfs.skipring.state import Contact, Interest, Neighbour, Subscription, Supervisor
from udfs.skipring.trie import publication_key

PLAN = Plan.of(SkipRing)
ME, SUPERVISOR, OTHER = 5, -1, 30


def label(digits: str | None) -> Label | None:
    return None if digits is None else Label(len(digits), int(digits, 2))


def sure(digits: str) -> Label:
    return Label(len(digits), int(digits, 2))


class Subscriber:
    """Node 5, with ring neighbours and slots given as ``{"left": (node, digits)}`` and ``{digits: node}``."""

    def __init__(self, digits: str | None = "01", short: dict[str, int | None] | None = None, **ring: Any) -> None:
        self.node = RunningNode(SkipRing())
        self.own = Subscription(TOPIC, wants=True, label=label(digits))
        for side, (node, of) in ring.items():
            setattr(self.own, side, Neighbour(node, sure(of)))
        self.own.short = {sure(of): node for of, node in (short or {}).items()}
        self.node.program.subscription = {TOPIC: self.own}
        self.node.program.supervisor = {SUPERVISOR: Supervisor(SUPERVISOR, 0.5)}

    def receive(self, message: Any, src: int = OTHER) -> list[str]:
        """Handles a message; returns what is sent."""
        return self._play([Flight(1, kind_of(type(message)), src, ME, 6, 7, None, message)])

    def timeout(self, seed: int = 0) -> list[str]:
        """Has a Timeout; returns what is sent."""
        self.node.internal.timers["Timeout", 0] = 7
        return self._play([], seed=seed)

    def call(self, kind: str, **of_call: Any) -> None:
        """Has the application call."""
        self._play([], [CALLS[kind](1, 7, **of_call)])

    def _play(self, received: list[Flight], calls: list[Call] | None = None, seed: int = 0) -> list[str]:
        ctx = Context(ME, 7, {**SETTINGS, "seed": seed}, self.node.internal)
        step(PLAN, 0, self.node, ctx, RoundDue(received, calls or []))
        return [told(dst, message) for dst, message, _ in ctx.sent]

    @property
    def ring(self) -> dict[str, tuple[int, str]]:
        """The neighbours on the ring that there are."""
        found = {side: getattr(self.own, side) for side in ("left", "right", "ring")}
        return {side: (one.node, str(one.label)) for side, one in found.items() if one is not None}

    @property
    def short(self) -> dict[str, int | None]:
        """The slots."""
        return {str(of): node for of, node in self.own.short.items()}


def told(dst: int, m: Any) -> str:
    """Returns a message in short."""
    if isinstance(m, Introduce):
        return f"Introduce({m.node}, {m.label}, {m.believed or '-'}, {m.flag})->{dst}"
    if isinstance(m, IntroduceShortcut):
        return f"IntroduceShortcut({m.node}, {m.label})->{dst}"
    if isinstance(m, RequestFor):
        return f"RequestFor({m.subscriber})->{dst}"
    if isinstance(m, GetConfiguration):
        return f"GetConfiguration({m.reason})->{dst}"
    return f"{type(m).__name__}({m.node if isinstance(m, Remove) else ''})->{dst}"


def introduce(node: int, digits: str, believed: str | None = None, flag: str = LIN) -> Introduce:
    return Introduce(TOPIC, node, sure(digits), label(believed), flag)


def configuration(before: tuple[int, str] | None, digits: str | None, after: tuple[int, str] | None) -> SetData:
    contacts = [None if one is None else Contact(one[0], sure(one[1])) for one in (before, after)]
    return SetData(TOPIC, contacts[0], label(digits), contacts[1], "round_robin")


LIST = {"left": (2, "0"), "right": (8, "1")}


@pytest.mark.parametrize(
    ("ring", "given", "after", "messages"),
    [
        ({}, (2, "0"), {"left": (2, "0")}, []),
        ({}, (8, "1"), {"right": (8, "1")}, []),
        (LIST, (3, "001"), {**LIST, "left": (3, "001")}, ["Introduce(2, 0, -, LIN)->3"]),
        (LIST, (9, "011"), {**LIST, "right": (9, "011")}, ["Introduce(8, 1, -, LIN)->9"]),
        (LIST, (9, "11"), LIST, ["Introduce(9, 11, -, LIN)->8"]),
        ({"left": (3, "001")}, (2, "0"), {"left": (3, "001")}, ["Introduce(2, 0, -, LIN)->3"]),
        ({}, (6, "01"), {"right": (6, "01")}, []),
        ({}, (4, "01"), {"left": (4, "01")}, []),
        (LIST, (2, "001"), LIST, []),
        ({"right": (8, "1"), "ring": (9, "11")}, (9, "11"), {"right": (8, "1"), "ring": (9, "11")}, []),
        ({}, (ME, "1"), {}, []),
    ],
    ids=[
        "left free", "right free", "nearer left", "nearer right", "farther right", "farther left", "same label above",
        "same label below", "held already", "held as the other end", "itself",
    ],
)  # fmt: skip
def test_linearize(ring: Any, given: Any, after: Any, messages: list[str]) -> None:
    subscriber = Subscriber("01", **ring)
    assert subscriber.receive(introduce(*given)) == messages
    assert subscriber.ring == after


MINIMUM = {"right": (8, "1"), "ring": (9, "11")}
MAXIMUM = {"left": (8, "001"), "ring": (9, "0")}


@pytest.mark.parametrize(
    ("ring", "given", "after", "messages"),
    [
        ({}, (9, "11"), {"right": (9, "11")}, []),
        (LIST, (9, "11"), LIST, ["Introduce(9, 11, -, CYC)->2"]),
        (LIST, (9, "0001"), LIST, ["Introduce(9, 0001, -, CYC)->8"]),
        ({"right": (8, "1")}, (9, "11"), MINIMUM, []),
        (MINIMUM, (9, "11"), MINIMUM, []),
        (MINIMUM, (7, "111"), {**MINIMUM, "ring": (7, "111")}, ["Introduce(9, 11, -, LIN)->8"]),
        (MINIMUM, (7, "101"), MINIMUM, ["Introduce(7, 101, -, LIN)->9"]),
        ({"left": (8, "001")}, (9, "0"), MAXIMUM, []),
        (MAXIMUM, (7, "0001"), MAXIMUM, ["Introduce(7, 0001, -, LIN)->9"]),
        ({"left": (8, "001"), "ring": (9, "0001")}, (7, "0"), {"left": (8, "001"), "ring": (7, "0")},
         ["Introduce(9, 0001, -, LIN)->8"]),
        ({"right": (8, "1")}, (8, "1"), {"right": (8, "1"), "ring": (8, "1")}, []),
    ],
    ids=[
        "isolated", "passed on to the left", "passed on to the right", "no ring", "the same", "farther", "nearer",
        "maximum: no ring", "maximum: nearer", "maximum: farther", "two nodes",
    ],
)  # fmt: skip
def test_closing_edge(ring: Any, given: Any, after: Any, messages: list[str]) -> None:
    subscriber = Subscriber("01", **ring)
    assert subscriber.receive(introduce(*given, flag=CYC)) == messages
    assert subscriber.ring == after


def test_a_wrong_belief_is_corrected() -> None:
    subscriber = Subscriber("01", left=(2, "0"))
    assert subscriber.receive(introduce(2, "0", "011"))[0] == "Introduce(5, 01, -, COR)->2"
    assert subscriber.receive(introduce(2, "0", "01")) == []


@pytest.mark.parametrize("message", [introduce(2, "11", "01"), introduce(2, "11", None, COR)], ids=["believed", "COR"])
def test_a_neighbour_that_introduces_itself_is_moved_to_its_side(message: Introduce) -> None:
    subscriber = Subscriber("01", left=(2, "0"))
    subscriber.own.on_ring()[0].silent = 6
    assert subscriber.receive(message, src=2) == []
    assert subscriber.ring == {"right": (2, "11")}


def test_an_introduction_sorts_the_ring_again_without_a_changed_label() -> None:
    subscriber = Subscriber("01", left=(3, "11"), right=(8, "1"))
    assert subscriber.receive(introduce(8, "1", "01"), src=8) == ["Introduce(3, 11, -, LIN)->8"]
    assert subscriber.ring == {"right": (8, "1")}


def test_what_a_third_party_says_of_a_neighbour_does_not_count() -> None:
    subscriber = Subscriber("01", left=(2, "0"))
    subscriber.own.on_ring()[0].silent = 6
    assert subscriber.receive(introduce(2, "11")) == []
    assert subscriber.ring == {"left": (2, "0")}
    assert subscriber.own.on_ring()[0].silent == 6


@pytest.mark.parametrize(
    ("ring", "given", "after", "requests"),
    [
        (LIST, ((2, "0"), "01", (8, "1")), LIST, []),
        (LIST, ((3, "001"), "01", (9, "011")), {"left": (3, "001"), "right": (9, "011")}, []),
        ({"left": (3, "001"), "right": (9, "011")}, ((2, "0"), "01", (8, "1")), LIST, [3, 9]),
        ({"left": (3, "001")}, ((9, "11"), "0", (2, "01")), {"right": (2, "01"), "ring": (9, "11")}, [3]),
        ({"left": (3, "001")}, ((9, "11"), "0", (2, "0001")), {"right": (2, "0001"), "ring": (9, "11")}, []),
        ({"left": (2, "01"), "ring": (4, "111")}, ((2, "01"), "11", (3, "0")), {"left": (2, "01"), "ring": (3, "0")},
         [4]),
        (LIST, (None, "0", None), {}, [2, 8]),
        (LIST, ((2, "1"), "0", (2, "1")), {"right": (2, "1"), "ring": (2, "1")}, [8]),
    ],
    ids=["the same", "nearer ones", "farther ones", "label changed", "old one farther", "maximum", "alone", "two"],
)  # fmt: skip
def test_a_configuration_overwrites(ring: Any, given: Any, after: Any, requests: list[int]) -> None:
    subscriber = Subscriber("01", **ring)
    assert subscriber.receive(configuration(*given)) == [f"RequestFor({node})->{SUPERVISOR}" for node in requests]
    assert subscriber.ring == after
    assert str(subscriber.own.label) == given[1]


def test_a_configuration_without_a_label_deletes_all() -> None:
    subscriber = Subscriber("01", {"1": 8}, **LIST)
    assert subscriber.receive(configuration(None, None, None)) == []
    assert subscriber.own == Subscription(TOPIC, wants=True)


def test_a_node_without_a_label_drops_all_but_configurations_and_removals() -> None:
    subscriber = Subscriber(None)
    assert subscriber.receive(introduce(2, "0", "01")) == []
    assert subscriber.receive(IntroduceShortcut(TOPIC, 2, sure("0"))) == []
    assert subscriber.own == Subscription(TOPIC, wants=True)
    assert subscriber.timeout() == [f"Subscribe()->{SUPERVISOR}"]
    assert subscriber.receive(configuration((2, "0"), "1", (2, "0"))) == []
    assert subscriber.ring == {"left": (2, "0"), "ring": (2, "0")}


def test_a_node_without_a_label_keeps_its_edges_until_its_configuration_comes() -> None:
    """Rule K5: it does nothing at Timeout but action (i); action (iii) then asks for what it has kept."""
    subscriber = Subscriber(None, {"1": 9}, left=(3, "001"))
    assert subscriber.timeout() == [f"Subscribe()->{SUPERVISOR}"]
    assert (subscriber.ring, subscriber.short) == ({"left": (3, "001")}, {"1": 9})
    assert subscriber.receive(configuration((2, "0"), "01", (8, "1"))) == [f"RequestFor(3)->{SUPERVISOR}"]
    assert subscriber.ring == LIST


def test_a_node_that_wants_nothing_and_has_no_label_forgets_its_edges() -> None:
    subscriber = Subscriber(None, {"1": 9}, left=(3, "001"))
    subscriber.own.wants = False
    assert subscriber.timeout() == []
    assert subscriber.own == Subscription(TOPIC)


def test_a_node_without_the_topic_answers() -> None:
    subscriber = Subscriber(None)
    subscriber.own.wants = False
    assert subscriber.receive(configuration((2, "0"), "01", (8, "1"))) == [f"Unsubscribe()->{SUPERVISOR}"]
    assert subscriber.receive(introduce(2, "0", "01")) == ["Remove(5)->2"]
    assert subscriber.receive(IntroduceShortcut(TOPIC, 2, sure("0")), src=3) == ["Remove(5)->2", "Remove(5)->3"]
    assert subscriber.timeout() == []


def test_leaving() -> None:
    subscriber = Subscriber("01", **LIST)
    subscriber.node.program.interest = {1: Interest(1, TOPIC), 2: Interest(2, TOPIC)}
    subscriber.call("unsubscribe", subscription_id=1)
    assert subscriber.own.wants
    subscriber.call("unsubscribe", subscription_id=2)
    assert subscriber.timeout() == subscriber.timeout() == [f"Unsubscribe()->{SUPERVISOR}"]
    subscriber.receive(configuration(None, None, None))
    assert subscriber.own == Subscription(TOPIC)
    subscriber.call("subscribe", subscription_id=3, topic=TOPIC)
    assert subscriber.timeout() == [f"Subscribe()->{SUPERVISOR}"]


def test_remove() -> None:
    subscriber = Subscriber("0", {"1": 9, "01": 8}, right=(8, "001"), ring=(9, "1"))
    assert subscriber.receive(Remove(TOPIC, 9)) == []
    assert subscriber.ring == {"right": (8, "001")}
    assert subscriber.short == {"1": None, "01": 8}


@pytest.mark.parametrize(
    ("short", "given", "after", "messages"),
    [
        ({"0": None}, (3, "0"), {"0": 3}, []),
        ({"0": 3}, (3, "0"), {"0": 3}, []),
        ({"0": 3}, (4, "0"), {"0": 4}, ["Introduce(5, 01, 0, LIN)->3"]),
        ({}, (4, "0"), {}, ["Introduce(5, 01, 0, LIN)->4"]),
        ({}, (2, "001"), {}, []),
        ({}, (2, "0"), {}, ["Introduce(5, 01, 0, LIN)->2"]),
        ({"0": 3}, (ME, "0"), {"0": 3}, []),
    ],
    ids=["empty", "the same", "another one", "no slot", "held on the ring", "held with another label", "itself"],
)
def test_introduce_shortcut(short: Any, given: Any, after: Any, messages: list[str]) -> None:
    subscriber = Subscriber("01", short, left=(2, "001"), right=(8, "1"))
    assert subscriber.receive(IntroduceShortcut(TOPIC, given[0], sure(given[1]))) == messages
    assert subscriber.short == after


def quiet(messages: list[str]) -> list[str]:
    """Returns messages without those that depend on draws."""
    return [one for one in messages if not one.startswith(("GetConfiguration", "CheckTrie"))]


def test_timeout_in_the_list() -> None:
    subscriber = Subscriber("01", {"0": 2, "111": 4}, left=(3, "001"), right=(8, "1"))
    assert quiet(subscriber.timeout()) == [
        "Introduce(5, 01, 001, LIN)->3", "Introduce(5, 01, 1, LIN)->8", "Introduce(5, 01, 111, LIN)->4",
        "IntroduceShortcut(8, 1)->2", "IntroduceShortcut(2, 0)->8",
    ]  # fmt: skip
    assert subscriber.short == {"0": 2}
    assert [one.silent for one in subscriber.own.on_ring()] == [1, 1]


SHORT = {"0": 12, "11": 13, "001": 14, "111": 15}


@pytest.mark.parametrize("filled", [[*SHORT], [*reversed(SHORT)]], ids=["as stored", "the other way"])
def test_slots_are_gone_through_in_the_order_of_labels(filled: list[str]) -> None:
    """Slots come back from a store in this order, and delays are drawn by the order of sending."""
    short, key = {of: SHORT[of] for of in filled}, publication_key(TOPIC, OTHER, 1, SETTINGS["key_bits"])
    flooded = Subscriber("01", short, **LIST).receive(PublishNew(TOPIC, key, OTHER, 1, 0, 1))
    assert flooded == [f"PublishNew()->{node}" for node in (2, 8, 12, 13, 14, 15)]
    subscriber = Subscriber("01", short, **LIST)
    gone = [
        one for one in subscriber.timeout() if one.startswith("Introduce(") and one.endswith(("12", "13", "14", "15"))
    ]
    assert gone == [f"Introduce(5, 01, {of}, LIN)->{node}" for of, node in SHORT.items()]


@pytest.mark.parametrize(
    ("ring", "closing"),
    [
        ({"right": (8, "1"), "ring": (9, "11")}, "Introduce(5, 01, 11, CYC)->9"),
        ({"right": (8, "1")}, "Introduce(5, 01, -, CYC)->8"),
        ({"left": (8, "0"), "ring": (9, "001")}, "Introduce(5, 01, 001, CYC)->9"),
        ({"left": (8, "0")}, "Introduce(5, 01, -, CYC)->8"),
    ],
    ids=["minimum", "minimum without ring", "maximum", "maximum without ring"],
)
def test_timeout_at_an_end(ring: Any, closing: str) -> None:
    messages = quiet(Subscriber("01", **ring).timeout())
    assert [one for one in messages if "CYC" in one] == [closing]


@pytest.mark.parametrize(
    ("ring", "after"),
    [
        ({"left": (8, "1")}, {"right": (8, "1")}),
        ({"right": (2, "0")}, {"left": (2, "0")}),
        ({**LIST, "ring": (9, "011")}, {**LIST, "right": (9, "011")}),
        ({"right": (8, "1"), "ring": (2, "0")}, {"left": (2, "0"), "right": (8, "1")}),
        ({"ring": (8, "1")}, {"right": (8, "1")}),
    ],
    ids=["left", "right", "ring at no end", "ring on the wrong side", "ring alone"],
)
def test_timeout_sorts_what_is_on_the_wrong_side(ring: Any, after: Any) -> None:
    subscriber = Subscriber("01", **ring)
    subscriber.timeout()
    assert subscriber.ring == after


def requests(subscriber: Subscriber, n: int = 2000) -> dict[str, float]:
    """Returns the share of Timeouts with a request, by reason."""
    found: dict[str, float] = {}
    for seed in range(n):
        for one in subscriber.timeout(seed):
            if one.startswith("GetConfiguration"):
                found[one] = found.get(one, 0) + 1 / n
        for neighbour in subscriber.own.on_ring():
            neighbour.silent -= 1
    return {reason.partition("(")[2].partition(")")[0]: share for reason, share in found.items()}


def test_requests() -> None:
    assert requests(Subscriber("1", left=(2, "0"))) == {"label": pytest.approx(1 / 2, abs=0.05)}
    assert requests(Subscriber("01", **LIST)) == {"label": pytest.approx(1 / 16, abs=0.02)}
    assert requests(Subscriber("0" * 19 + "1", right=(8, "1"))) == {"minimum": pytest.approx(1 / 2, abs=0.05)}


@pytest.mark.parametrize(("silent", "expected"), [(8, {}), (9, {"silence": pytest.approx(1 / 2, abs=0.05)})])
def test_a_silent_neighbour(silent: int, expected: Any) -> None:
    subscriber = Subscriber("0" * 19 + "1", left=(2, "0"), right=(8, "1"))
    subscriber.own.on_ring()[1].silent = silent
    assert requests(subscriber) == expected
