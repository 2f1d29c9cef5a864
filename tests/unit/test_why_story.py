"""Stories of publications from histories written by hand: what real runs seldom show, and how a story is printed.

The overlay is P - A - B - S; the subscription of S is confirmed in round 3, the publication is issued in round 10.
"""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from pipelines.report.space_time import of_story
from pipelines.why.facts import Downtime, LinkFault, MessageFact, PublicationFact, RunFacts, SubscriptionFact, Wait
from pipelines.why.overview import MISSING, TWICE, CauseKey, cause_key
from pipelines.why.story import Story, print_story, publication_name
from pipelines.why.telling import excuse, issued_story

P, A, B, S = range(4)
NAMES = {P: "P", A: "A", B: "B", S: "S"}


def copy(number: int, src: int, dst: int, sent: int, fate: str = "delivered", **body: object) -> MessageFact:
    return MessageFact(number, "PUB", src, dst, sent, sent + 1, fate, body)


def spread(number: int, src: int, dst: int, sent: int, fate: str = "delivered") -> MessageFact:
    return MessageFact(number, "SUB", src, dst, sent, sent + 1, fate, {"subscription_id": 7})


def report(node: int, peer: int, sent: int, fate: str = "delivered") -> MessageFact:
    return MessageFact(sent, "REPORT", node, node, sent, sent + 5, fate, {"peer": peer})


def history(*copies: MessageFact, delivered: int | None = None, **parts: object) -> RunFacts:
    """A history in which the subscription came to every node in time, unless said otherwise."""
    links = [(P, A, 1), (A, B, 1), (B, S, 1)]
    facts = RunFacts(
        run_id=0,
        confirms=True,
        is_finished=True,
        names=dict(NAMES),
        publications={(P, 1): PublicationFact(P, 1, 10, "t", "{}", None)},
        messages={(P, 1): list(copies)},
        spread={(S, 7): [spread(1, S, B, 0), spread(2, B, A, 1), spread(3, A, P, 2)]},
        subscriptions={S: [SubscriptionFact(7, "topic = t", 0, 3, None)]},
        matching={(P, 1): {7}},
        receivers={(S, P, 1): None},
        links=[*links, *((b, a, latency) for a, b, latency in links)],
    )
    if delivered is not None:
        facts.deliveries[S, P, 1] = [(delivered, 3)]
    return replace(facts, **parts)


def told(facts: RunFacts) -> Story:
    return issued_story(facts, S, facts.publications[P, 1])


def ended(story: Story) -> tuple[str, str | None, str | None, str | None, int | None]:
    """Returns how and where it ended, and kind, node and round of the cause."""
    cause = story.cause
    found = (None, None, None) if cause is None else (cause.kind, story.names[cause.node], cause.round)
    return story.ended, story.node, *found


def for_good(node: int, round_: int) -> Downtime:
    return Downtime(node, round_, None, None, None, ())


def restored(node: int, round_: int, until: int, operational: int) -> Downtime:
    return Downtime(
        node, round_, until, operational, operational, ((until, "RECOVERING"), (operational, "OPERATIONAL"))
    )


FIRST = copy(100, P, A, 10)
LOST = copy(101, A, B, 11, "lost_link")
EVERYWHERE = LinkFault("loss", None, None, 5, None)
BURST = LinkFault("burst", A, B, 11, 13)
BROKEN = LinkFault("break", A, B, 9, 12)
SPLIT = LinkFault("partition", B, S, 10, 20)
OVERTAKING = LinkFault("reorder", A, B, 2, 15)


@pytest.mark.parametrize(
    ("copies", "parts", "expected", "words"),
    [
        pytest.param(
            [FIRST, copy(101, A, B, 11, "lost_link")], {}, ("A", "link", "B", 12), "lost on the link from A", id="link"
        ),
        pytest.param(
            [FIRST, copy(101, A, B, 11, "duplicate")],
            {},
            ("A", "taken_for_duplicate", "B", 12),
            "dropped the first copy that it received, in round 12, as a duplicate",
            id="duplicate",
        ),
        pytest.param(
            [FIRST],
            {"changes": {(A, B): [(8, "link")], (P, B): [(8, "unlink")], (S, P): [(60, "link")]}},
            ("A", "link", "A", 8),
            "was in round 8: link P - B removed and link A - B added",
            id="replacement",
        ),
        pytest.param(
            [FIRST], {}, ("A", "unexplained", "A", 11), "no crash or loss on the path explains", id="unexplained"
        ),
        pytest.param(
            [FIRST],
            {"downs": {A: [for_good(A, 13)]}},
            ("A", "crash", "A", 13),
            "A received it in round 11 and did not forward it before its crash: A was down (from round 13 on)",
            id="held",
        ),
        pytest.param(
            [FIRST],
            {"downs": {B: [restored(B, 5, 8, 14)]}},
            ("A", "crash", "B", 5),
            "did not forward it: B was recovering after its downtime (rounds 5 to 7)",
            id="next recovers",
        ),
        pytest.param(
            [FIRST],
            {"downs": {S: [restored(S, 2, 4, 6)]}},
            ("A", "crash", "S", 2),
            "the last crash on the path before that: S was down (rounds 2 to 3)",
            id="long ago",
        ),
        pytest.param(
            [FIRST, copy(101, A, B, 11, "lost_crash")],
            {"downs": {B: [restored(B, 8, 10, 15)]}},
            ("A", "crash", "B", 8),
            "arrived in round 12 and was dropped: B had crashed in round 8 and recovered in round 10",
            id="plain",
        ),
        pytest.param(
            [FIRST],
            {
                "spread": {(S, 7): [spread(1, S, B, 0), spread(2, B, A, 1, "lost_crash")]},
                "downs": {A: [restored(A, 2, 3, 4)]},
            },
            ("A", "crash", "A", 2),
            "the last crash on the path before that: A was down (round 2)",
            id="restored in vain",
        ),
        pytest.param(
            [],
            {
                "spread": {(S, 7): [spread(1, S, B, 0), spread(2, B, A, 1, "lost_crash")]},
                "downs": {A: [Downtime(A, 1, 4, 4, None, ())]},
            },
            ("P", "crash", "A", 1),
            "of which the copy sent to A in round 1 arrived while A was down (rounds 1 to 3)",
            id="subscription lost",
        ),
        pytest.param(
            [],
            {"spread": {(S, 7): [spread(1, S, B, 0), spread(2, B, A, 9), spread(3, A, P, 10)]}},
            ("P", "subscription_under_way", "P", 10),
            "which arrived only in round 11",
            id="subscription late",
        ),
    ],
)
def test_where_and_why_a_publication_is_lost(
    copies: list[MessageFact], parts: dict[str, object], expected: tuple[str, str, str, int], words: str
) -> None:
    story = told(history(*copies, **parts))
    assert ended(story) == ("lost", *expected)
    assert words in story.verdict
    assert story.verdict.startswith("lost: ")


def test_a_node_that_crashes_before_it_learns_of_a_failure_is_named_too() -> None:
    lost = [FIRST, copy(101, A, B, 11, "lost_crash")]
    downs = {A: [for_good(A, 14)], B: [for_good(B, 12)]}
    story = told(history(*lost, downs=downs, others=[report(A, B, 12, "lost_crash")]))
    assert ended(story) == ("lost", "A", "crash", "B", 12)
    assert story.also == ({"node": "A", "round": 14, "until": None},)
    unheard = told(history(*lost, downs=downs))
    assert unheard.also == ()


def test_it_may_still_come_while_a_failure_is_to_be_reported() -> None:
    lost = [FIRST, copy(101, A, B, 11, "lost_crash")]
    story = told(history(*lost, downs={B: [for_good(B, 12)]}, others=[report(A, B, 12, "in_flight")]))
    assert ended(story) == ("unknown", "A", "in_flight", "A", 17)
    other = told(history(*lost, downs={B: [for_good(B, 12)]}, others=[report(P, A, 12, "in_flight")]))
    assert other.ended == "lost"
    assert ended(told(history(FIRST, is_finished=False)))[:3] == ("unknown", "A", "in_flight")


@pytest.mark.parametrize(
    ("issued", "confirmed", "kind"), [(12, 15, "issued_later"), (8, 14, "not_confirmed"), (8, None, "not_confirmed")]
)
def test_a_subscription_that_came_too_late_is_drawn(issued: int, confirmed: int | None, kind: str) -> None:
    late = {(S, 7): [spread(1, S, B, issued), spread(2, B, A, issued + 1), spread(3, A, P, issued + 2)]}
    subscribed = {S: [SubscriptionFact(7, "topic = t", issued, confirmed, None)]}
    story = told(history(spread=late, subscriptions=subscribed, receivers={}))
    assert story.cause is not None
    assert story.cause.kind == kind
    diagram = of_story(story)
    assert [(one.src, one.dst, one.sent, one.kind) for one in diagram.arrows] == [
        ("S", "B", issued, "SUB"), ("B", "A", issued + 1, "SUB"), ("A", "P", issued + 2, "SUB"),
    ]  # fmt: skip
    called = [("P", 10, "publish"), ("S", issued, "subscribe")]
    assert diagram.calls == [*called, *([] if confirmed is None else [("S", confirmed, "confirmed")])]
    assert diagram.span == (min(10, issued), max(issued + 3, confirmed or 0) + 1)
    assert len(diagram.datasets()["calls"]) == len(diagram.calls)
    svg = diagram.draw("").svg
    assert ">subscribe<" in svg
    assert story.as_dict()["subscription"]["steps"][0]["kind"] == "SUB"
    assert told(LATE).subscription is None


def test_a_publication_is_named_by_both_its_numbers() -> None:
    later = history()
    later.publications[P, 4] = PublicationFact(P, 4, 30, "t", "{}", None)
    story = issued_story(later, S, later.publications[P, 4])
    assert (story.seq, story.call) == (2, 4)
    assert str(story).startswith("run 0: publication 2 (call 4) of P for S; path: P - A - B - S\n")
    assert "publication 2 (call 4) of P for S" in story._repr_html_()
    assert publication_name("P", None, 3) == "call 3 of P"


def test_who_has_no_subscription_that_stands_did_not_ask() -> None:
    nobody = {"receivers": {}}
    for subscription, kind in (
        (SubscriptionFact(7, "topic = t", 0, None, None), "not_confirmed"),
        (SubscriptionFact(7, "topic = t", 12, 15, None), "issued_later"),
        (SubscriptionFact(7, "topic = t", 0, 3, 8), "unsubscribed"),
        (SubscriptionFact(7, "topic = t", 0, 3, 11), "unsubscribed"),
        (SubscriptionFact(8, "topic = u", 0, 3, None), "no_match"),
    ):
        story = told(history(FIRST, subscriptions={S: [subscription]}, **nobody))
        assert (story.ended, story.cause and story.cause.kind) == ("not_matching", kind)


@pytest.mark.parametrize(("end", "told_cause"), [(12, "unsubscribed"), (13, "link")])
def test_a_copy_lost_before_the_unsubscription_is_the_cause(end: int, told_cause: str) -> None:
    subscriptions = {S: [SubscriptionFact(7, "topic = t", 0, 3, end)]}
    lost = copy(101, A, B, 11, "lost_link")
    story = told(history(FIRST, lost, subscriptions=subscriptions, receivers={}))
    assert (story.ended, story.cause and story.cause.kind) == (
        "not_matching" if told_cause == "unsubscribed" else "lost",
        told_cause,
    )
    assert story.verdict.endswith("it was not resent; the delivery was not guaranteed") == (told_cause == "link")


LATE = history(
    FIRST,
    copy(101, A, B, 11, "lost_crash"),
    copy(102, A, S, 17),
    copy(103, A, B, 21, guide=[[1, 2]]),
    copy(104, B, S, 22, "duplicate"),
    delivered=18,
    downs={B: [restored(B, 12, 20, 26)]},
    others=[report(A, B, 12)],
)


def test_a_late_delivery_names_what_kept_it() -> None:
    story = told(LATE)
    assert ended(story) == ("delivered", "S", "crash", "B", 12)
    assert (story.late_rounds, story.round) == (5, 18)


def test_a_story_is_printed_a_step_a_line() -> None:
    expected = """\
run 0: publication 1 (call 1) of P for S; path: P - A - B - S
P publishes on topic t in round 10
└── P sends it to A in round 10: received in round 11
    ├── A sends it to B in round 11: lost in round 12, B is down
    │   ├── B crashes in round 12 and recovers in round 20; RECOVERING in round 20, OPERATIONAL in round 26
    │   └── A detects the failure of B in round 17
    ├── A sends it to S (again, bypassing B) in round 17: received in round 18
    │   └── S delivers it in round 18
    └── A sends it to B (again, Guided) in round 21: received in round 22
        └── B sends it to S in round 22: dropped as a duplicate in round 23 by S, which received it in round 18
delivered: to S in round 18, over 3 hops, 5 rounds later than on the fastest path: the copy sent to B in round 11 \
arrived while B was down (rounds 12 to 19)"""
    assert str(told(LATE)) == expected


def test_names_are_printed_as_they_are() -> None:
    story = told(replace(LATE, names={P: "[red]P[/red]", A: "a b", B: "B", S: "S"}))
    out = io.StringIO()
    print_story(story, out)
    assert "[red]P[/red] sends it to a b in round 10" in out.getvalue()


def test_json_says_what_the_text_says() -> None:
    story = told(LATE).as_dict()
    assert (story["run_id"], story["subscriber"], story["source"], story["seq"]) == (0, "S", "P", 1)
    assert (story["ended"], story["round"], story["path"]) == ("delivered", 18, ["P", "A", "B", "S"])
    assert (story["cause"]["kind"], story["cause"]["node"], story["cause"]["until"]) == ("crash", "B", 20)
    [first] = story["steps"]["steps"]
    lost, around, guided = first["steps"]
    assert [step["event"] for step in lost["steps"]] == ["crash", "detection"]
    assert (around["bypassed"], around["is_resent"], around["is_guided"]) == (["B"], True, False)
    assert (guided["bypassed"], guided["is_resent"], guided["is_guided"]) == ([], True, True)
    assert guided["steps"][0]["fate"] == "duplicate"


@pytest.mark.parametrize(
    ("faults", "wanted", "words"),
    [
        ([], None, "lost on the link from A; it was"),
        ([EVERYWHERE], EVERYWHERE, "(loss: from round 5 on)"),
        ([EVERYWHERE, BURST], BURST, "(burst: rounds 11 to 12)"),
        ([EVERYWHERE, BURST, BROKEN], BROKEN, "(break: rounds 9 to 11)"),
        ([EVERYWHERE, replace(BROKEN, until=11), replace(BROKEN, src=B, dst=A)], EVERYWHERE, "(loss: from"),
        ([SPLIT], SPLIT, "(partition: rounds 10 to 19)"),
        ([replace(SPLIT, until=11)], None, "lost on the link from A; it was"),
    ],
    ids=["none", "everywhere", "burst", "break", "elsewhere", "split", "healed"],
)
def test_the_fault_of_the_link_is_named(faults: list[LinkFault], wanted: LinkFault | None, words: str) -> None:
    story = told(history(FIRST, LOST, link_faults=faults))
    assert ended(story) == ("lost", "A", "link", "B", 12)
    assert story.cause is not None
    assert story.cause.fault == wanted
    assert words in story.verdict
    given = story.as_dict()["cause"]
    assert ("fault" in given) == (wanted is not None)
    if wanted is BROKEN:
        assert given["fault"] == {"kind": "break", "from": "A", "to": "B", "round": 9, "until": 12}


def test_what_was_overtaken_is_told_where_it_is_taken_for_a_duplicate() -> None:
    story = told(history(FIRST, copy(101, A, B, 11, "duplicate"), link_faults=[OVERTAKING]))
    assert ended(story) == ("lost", "A", "taken_for_duplicate", "B", 12)
    assert "as a duplicate: other messages had overtaken it (reorder: rounds 2 to 14)" in story.verdict


def test_a_lost_subscription_names_the_fault_of_its_link() -> None:
    lost = [spread(1, S, B, 0), spread(2, B, A, 1, "lost_link")]
    fault = LinkFault("break", B, A, 0, 4)
    story = told(history(FIRST, spread={(S, 7): lost}, link_faults=[fault]))
    assert ended(story) == ("lost", "A", "link", "A", 2)
    assert story.cause is not None
    assert story.cause.fault == fault


def test_another_message_that_was_lost_on_the_way_is_named_before_crashes_that_explain_nothing() -> None:
    other = MessageFact(50, "STATUS", B, A, 6, 7, "lost_link", {})
    later = MessageFact(120, "STATUS", B, A, 16, 17, "lost_link", {})
    downs = {S: [restored(S, 2, 4, 6)]}
    story = told(history(FIRST, others=[other, later], downs=downs, link_faults=[EVERYWHERE]))
    assert ended(story) == ("lost", "A", "link", "A", 7)
    assert "STATUS, sent from B to A in round 6 (loss: from round 5 on)" in story.verdict


def test_a_delayed_copy_is_why_it_came_late() -> None:
    slow = replace(copy(101, A, B, 11), due=17)
    facts = history(
        FIRST, slow, copy(102, B, S, 17), delivered=18, link_faults=[LinkFault("delay", None, None, 0, None)]
    )
    story = told(facts)
    assert (story.ended, story.late_rounds) == ("delivered", 5)
    words = "the copy sent to B in round 11 took 5 rounds longer on the link from A (delay: from round 0 on)"
    assert words in story.verdict


def test_a_recovery_that_a_crash_interrupts_ends_with_that_crash() -> None:
    """B crashes in round 2, and again in round 6, while it recovers; it is restored in round 8."""
    downs = {B: [Downtime(B, 2, 4, 6, None, ((4, "RECOVERING"),)), restored(B, 6, 7, 8)]}
    story = told(history(FIRST, copy(101, A, B, 11, "duplicate"), downs=downs))
    assert ended(story) == ("lost", "A", "taken_for_duplicate", "B", 12)
    assert all(step["event"] != "crash" for step in story.as_dict()["steps"]["steps"])


@pytest.mark.parametrize(("source", "code", "words"), [
    (P, "subscriber_down", "S was down or recovering (crash in round 12)"),
    (S, "subscriber_down", "S was down or recovering (crash in round 12)"),
    (S, "publisher_crashed", "S crashed before the publication was confirmed (crash in round 12)"),
])  # fmt: skip
def test_an_excuse_names_a_crash_that_ends_after_the_publication(source: int, code: str, words: str) -> None:
    """The protocol reports no statuses. A publisher may subscribe to its own topic."""
    downs = {S: [Downtime(S, 5, 8, 8, None, ()), Downtime(S, 12, 14, 14, None, ())]}
    facts = history(downs=downs, receivers={(S, source, 1): code})
    assert excuse(facts, S, PublicationFact(source, 1, 10, "t", "{}", None)) == words


@pytest.mark.parametrize(("copies", "delivered", "wanted", "words"), [
    ([FIRST, replace(copy(101, A, B, 11), due=17), copy(102, B, S, 17)], 18, ("link", "B", 17),
     "the copy sent to B in round 11 took 5 rounds longer on the link from A (duplicate: rounds 5 to 8)"),
    ([FIRST, copy(101, A, B, 11), copy(102, B, S, 12), copy(103, B, S, 30)], 31, ("crash", "S", 20),
     "B received it in round 12 and sent it only in round 30: S was down (rounds 20 to 28)"),
    ([FIRST, copy(101, A, B, 11), copy(102, B, S, 15)], 18, ("waited", "B", 12), "it waited at B from round 12 to 15"),
    ([copy(100, P, A, 12), copy(101, A, B, 13), copy(102, B, S, 14)], 15, ("waited", "P", 10),
     "it waited at P from round 10 to 12"),
    ([FIRST, copy(101, A, B, 11), copy(102, B, S, 12)], 16, ("waited", "S", 13), "it waited at S from round 13 to 16"),
    ([FIRST, copy(101, A, B, 11), copy(102, B, A, 12), copy(103, A, S, 13)], 14, ("detour", "S", 14),
     "later than on the fastest path: it did not take the fastest path"),
    ([FIRST, replace(copy(101, A, B, 11), due=18, fate="duplicate"), copy(102, A, P, 11), copy(103, P, S, 12),
      replace(copy(104, S, B, 13), due=99)], 14, ("waited", "S", 13), "it waited at S from round 13 to 14"),
    ([copy(100, P, A, 10), replace(copy(101, A, B, 11), due=18, fate="duplicate"), copy(102, A, P, 11),
      copy(103, P, A, 12), copy(104, A, S, 13)], 14, ("link", "B", 18), "took 6 rounds longer on the link from A"),
], ids=[
    "after the fault", "after a crash", "broker", "source", "subscriber", "detour", "wait after a detour",
    "fastest path",
])  # fmt: skip
def test_each_late_delivery_has_a_cause(
    copies: list[MessageFact], delivered: int, wanted: tuple[str, str, int], words: str
) -> None:
    """The delay fault is active on another link."""
    faults = [LinkFault("duplicate", A, B, 5, 9), LinkFault("delay", B, A, 0, None)]
    downs = {S: [restored(S, 20, 29, 30)]}
    story = told(history(*copies, delivered=delivered, link_faults=faults, downs=downs))
    assert ended(story) == ("delivered", "S", *wanted)
    assert words in story.verdict


def test_a_wait_within_one_round_delays_nothing() -> None:
    waits = {(P, 1): [Wait(A, 11, 11, "its key items were locked", (A, 5))]}
    downs = {A: [Downtime(A, 5, 8, 8, None, ())]}
    story = told(history(FIRST, copy(101, A, B, 11), copy(102, B, S, 15), delivered=18, waited=waits, downs=downs))
    assert story.cause is not None
    assert story.cause.text == "it waited at B from round 12 to 15"


def test_an_early_delivery_is_not_late() -> None:
    """A replaced link was slower when the publication was issued."""
    story = told(history(FIRST, copy(101, A, S, 11), delivered=12))
    assert (story.late_rounds, story.cause) == (-1, None)
    assert story.verdict == "delivered: to S in round 12, over 3 hops"


@pytest.mark.parametrize(("fault", "kind"), [
    (LinkFault("delay", S, B, 0, 3), "subscription_under_way"),
    (LinkFault("reorder", None, None, 10, None), "subscription_under_way"),
    (LinkFault("delay", S, B, 0, 2), "unexplained"),
    (LinkFault("delay", B, S, 0, None), "unexplained"),
    (LinkFault("delay", B, A, 11, None), "unexplained"),
    (LinkFault("duplicate", None, None, 0, None), "unexplained"),
], ids=["link", "everywhere", "before", "other direction", "after", "duplicate"])  # fmt: skip
def test_a_delayed_subscription_that_messages_do_not_name_is_explained_by_the_fault(
    fault: LinkFault, kind: str
) -> None:
    """S subscribes in round 2, and its subscription takes 3 rounds to P, which publishes in round 10."""
    subscribed = {S: [SubscriptionFact(7, "topic = t", 2, None, None)]}
    parts = {"confirms": False, "routes_on_tree": True, "spread": {}, "subscriptions": subscribed}
    story = told(history(**parts, link_faults=[fault]))
    assert ended(story) == ("lost", "P", kind, "P", 10)
    assert story.cause is not None
    assert story.cause.fault == (None if kind == "unexplained" else fault)
    crash = told(history(**parts, link_faults=[fault], downs={A: [for_good(A, 5)]}))
    assert ended(crash) == ("lost", "P", "crash", "A", 5)


def test_nodes_that_hold_a_publication_back_are_named_once_in_a_fixed_order() -> None:
    """The rows of an engine have no order, and a node may hold a publication back in several places."""
    waits = [(S, "it is locked"), (B, "it is locked"), (A, "it is cached"), (S, "it is locked"), (S, "it is cached")]
    expected = (
        "lost: it still waits at S, where it is cached; at S, where it is locked; at A, where it is cached, and 1 more"
    )
    for order in (waits, waits[::-1]):
        story = told(history(FIRST, waits={(P, 1): order}))
        assert (ended(story), story.verdict) == (("lost", "A", "waiting", "S", 11), expected)


def test_deliveries_are_grouped_by_the_event_and_not_by_the_copy() -> None:
    def key(*copies: MessageFact, **parts: object) -> CauseKey:
        return cause_key(MISSING, told(history(*copies, **parts)))

    def lost(sent: int, *faults: LinkFault) -> CauseKey:
        return key(copy(100, P, A, sent, "lost_link"), link_faults=faults)

    assert lost(11, EVERYWHERE) == lost(12, EVERYWHERE) != lost(11)
    assert lost(11, EVERYWHERE) != lost(11, replace(EVERYWHERE, src=P)) != lost(11, replace(EVERYWHERE, dst=A))
    assert lost(11) != lost(12)
    late = replace(FIRST, due=15)
    assert key(FIRST) == key(late) != key()
    waits = {(P, 1): [(B, "it is locked")]}
    assert key(FIRST, waits=waits) == key(late, waits=waits) != key(FIRST)
    assert key(FIRST, waits=waits) != key(FIRST, waits=waits, run_id=1)
    assert cause_key(TWICE, told(history(FIRST))) == ()
