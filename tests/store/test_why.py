"""Stories of publications, from real runs: all runs of a protocol are one job.

The fixed overlay, with subscribers S1 and S2:

    P1 - A - B - C - S1
             |
             S2
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.engines.session import Session
from pipelines.errors import QueryError
from pipelines.result import Result
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario
from pipelines.why import Question, Story, stories
from pipelines.why.story import StoryStep

LINKS = [["P1", "A"], ["A", "B"], ["B", "C"], ["C", "S1"], ["B", "S2"]]
DELTA = {"name": "delta", "delta": 1}
FORWARDING = {"name": "forwarding"}
FIGURE1 = Path(__file__).parents[2] / "conf" / "scenarios" / "figure1.yaml"
N_RANDOM = 20
HORIZON = 50


def down(node: str, round_: int, until: int | None = None) -> dict[str, Any]:
    return {"kind": "crash", "node": node, "round": round_} | ({} if until is None else {"until": until})


def chain(protocol: dict[str, Any], *faults: dict[str, Any], subscribed: int = 0, last: int = 33) -> dict[str, Any]:
    """Publications 1 to 5 of P1, in rounds 12, 15, 18, 21 and a later one."""
    return scenario(
        protocol=protocol,
        overlay={"links": LINKS},
        workload={
            "subscriptions": [{"at": "S1", "round": subscribed, "topic": "t"}, {"at": "S2", "round": 0, "topic": "t"}],
            "publications": [{"at": "P1", "round": round_, "topic": "t"} for round_ in (12, 15, 18, 21, last)],
        },
        faults=list(faults),
        time={"rounds": HORIZON},
    )


def beyond(protocol: dict[str, Any], seed: int) -> dict[str, Any]:
    """A random tree of eight nodes of which four crash within five rounds, more than δ = 1 allows."""
    draw = random.Random(seed)
    names = [f"N{number}" for number in range(1, 9)]
    faults = []
    for name in draw.sample(names, 4):
        start = draw.randrange(18, 23)
        faults.append(down(name, start, draw.choice([None, start + draw.randrange(5, 10)])))
    return scenario(
        protocol=protocol,
        overlay={"generate": {"kind": "random_tree", "nodes": 8}},
        workload={
            "subscriptions": [{"at": name, "round": 0, "topic": "t"} for name in draw.sample(names, 4)],
            "publications": [{"at": draw.choice(names), "round": round_, "topic": "t"} for round_ in range(17, 32, 2)],
        },
        faults=faults,
        time={"rounds": HORIZON},
    )


def opened(store: Store) -> Result:
    return Result(store.root, store.session)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("why")


@pytest.fixture(scope="module")
def forwarding(sail: Session, root: Path) -> Result:
    """Run 0 is Figure 1, run 1 has a broker that comes back; the others are random."""
    figure1 = yaml.safe_load(FIGURE1.read_text()) | {"time": {"rounds": HORIZON}}
    runs = [figure1, chain(FORWARDING, down("B", 16, 23))]
    return opened(run_all(run_configs([*runs, *(beyond(FORWARDING, s) for s in range(N_RANDOM))]), sail, root))


FREE, BYPASS, BEYOND, SUBSCRIBER, PUBLISHER, LATE, RANDOM = range(7)


@pytest.fixture(scope="module")
def delta(sail: Session, root: Path) -> Result:
    """Runs `FREE` to `LATE`; from `RANDOM` on random ones."""
    runs = [
        chain(DELTA, last=HORIZON - 1),
        chain(DELTA, down("B", 16, 28)),
        chain(DELTA, down("B", 16), down("C", 16)),
        chain(DELTA, down("S1", 16, 30)),
        chain(DELTA, down("A", 16), down("P1", 17, 30)),
        chain(DELTA, subscribed=14),
    ]
    return opened(run_all(run_configs([*runs, *(beyond(DELTA, s) for s in range(N_RANDOM))]), sail, root))


def cause(story: Story) -> tuple[str, str, int] | None:
    return None if story.cause is None else (story.cause.kind, story.names[story.cause.node], story.cause.round)


def events(step: StoryStep | None) -> list[StoryStep]:
    """Returns a step and all below it."""
    return [] if step is None else [step, *(below for child in step.steps for below in events(child))]


def copies(story: Story) -> list[tuple[str, str, int, str]]:
    found = [step.data for step in events(story.steps) if step.event == "copy"]
    return [(copy["from"], copy["to"], copy["sent_round"], copy["fate"]) for copy in found]


def test_without_failures_a_story_is_its_hops(delta: Result) -> None:
    story = delta.why(FREE, "S1", "P1", 1)
    way = ["P1", "A", "B", "C", "S1"]
    assert copies(story) == [(a, b, 12 + n, "delivered") for n, (a, b) in enumerate(itertools.pairwise(way))]
    assert [step.event for step in events(story.steps)] == ["published", *["copy"] * 4, "delivery"]
    assert (story.ended, story.round, story.late_rounds, story.cause, story.is_expected) == (
        "delivered", 16, 0, None, True,
    )  # fmt: skip
    assert str(story).splitlines()[-1] == "delivered: to S1 in round 16, over 4 hops"


def test_what_is_under_way_at_the_end_is_not_known(delta: Result) -> None:
    story = delta.why(FREE, "S1", "P1", 5)
    assert (story.ended, cause(story)) == ("unknown", ("in_flight", "B", HORIZON + 1))


def test_a_bypass_is_told_with_crash_detection_resend_and_duplicate(delta: Result) -> None:
    story = delta.why(BYPASS, "S1", "P1", 2)
    assert (story.ended, cause(story), story.round) == (
        "delivered",
        ("crash", "B", 16),
        15 + 4 + (story.late_rounds or 0),
    )
    assert (story.late_rounds or 0) > 0
    told = events(story.steps)
    around = [step.data for step in told if step.event == "copy" and step.data["bypassed"]]
    assert [(copy["from"], copy["to"], copy["bypassed"], copy["is_resent"]) for copy in around] == [
        ("A", "C", ["B"], True)
    ]
    assert ("A", "B", 16, "lost_crash") in copies(story)
    assert [(step.data["node"], step.data["peer"]) for step in told if step.event == "detection"] == [("A", "B")]
    [crash] = [step for step in told if step.event == "crash"]
    assert (crash.data["node"], crash.round, crash.data["until"]) == ("B", 16, 28)
    assert [status["status"] for status in crash.data["statuses"]] == ["RECOVERING", "OPERATIONAL"]


def test_guided_copies_to_a_recovering_node_are_told(delta: Result) -> None:
    told = [delta.why(BYPASS, "S1", "P1", seq) for seq in range(1, 6)]
    assert {story.ended for story in told} == {"delivered"}
    guided = [step.data for story in told for step in events(story.steps) if step.data.get("is_guided")]
    assert guided
    assert {(copy["from"], copy["to"], copy["fate"]) for copy in guided} == {("A", "B", "delivered")}
    assert "duplicate" in {fate for story in told for *_, fate in copies(story)}


def test_beyond_delta_a_loss_is_told_with_both_crashes(delta: Result) -> None:
    story = delta.why(BEYOND, "S1", "P1", 2)
    assert (story.ended, story.node, cause(story)) == ("lost", "A", ("crash", "B", 16))
    assert [(other["node"], other["round"], other["until"]) for other in story.also] == [("C", 16, None)]
    assert (story.is_expected, story.excused) == (True, None)
    assert str(story).splitlines()[-1] == (
        "lost: the copy sent to B in round 16 arrived while B was down (from round 16 on); it was not resent;"
        " also, C was down (from round 16 on)"
    )
    later = delta.why(BEYOND, "S1", "P1", 5)
    assert (later.ended, later.node, cause(later)) == ("lost", "A", ("crash", "B", 16))
    assert delta.why(BEYOND, "S2", "P1", 5).ended == "delivered"


def test_a_subscriber_that_was_down_excuses(delta: Result) -> None:
    story = delta.why(SUBSCRIBER, "S1", "P1", 2)
    assert (story.ended, story.node, cause(story)) == ("lost", "C", ("crash", "S1", 16))
    assert (story.is_expected, story.excused) == (False, "subscriber_down")
    assert story.verdict.endswith("excused: S1 was down or recovering (crash in round 16)")


def test_a_publisher_that_crashed_before_its_confirmation_excuses(delta: Result) -> None:
    story = delta.why(PUBLISHER, "S1", "P1", 2)
    assert (story.ended, story.node, cause(story)) == ("lost", "P1", ("crash", "A", 16))
    assert (story.is_expected, story.excused) == (False, "publisher_crashed")
    assert [other["node"] for other in story.also] == ["P1"]


def test_a_call_of_a_publisher_that_was_down_is_not_issued(delta: Result) -> None:
    story = delta.why(PUBLISHER, "S1", "P1", call=3)
    assert (story.ended, cause(story), story.steps) == ("not_issued", ("crash", "P1", 17), None)


def test_who_did_not_ask_is_told_so(delta: Result, forwarding: Result) -> None:
    unconfirmed = delta.why(LATE, "S1", "P1", 2)
    assert (unconfirmed.ended, cause(unconfirmed)) == ("not_matching", ("not_confirmed", "S1", 14))
    assert (delta.why(LATE, "S1", "P1", 1).ended, delta.why(LATE, "S1", "P1", 5).ended) == ("not_matching", "delivered")
    never = delta.why(FREE, "A", "P1", 1)
    assert (never.ended, cause(never)) == ("not_matching", ("no_subscription", "A", 12))
    other = forwarding.why(0, "S2", "P", 2)
    assert (other.ended, cause(other)) == ("not_matching", ("no_match", "S2", 21))
    assert "item = 1" in other.verdict


def test_figure_1_is_a_subscription_that_had_not_come_yet(forwarding: Result) -> None:
    told = [forwarding.why(0, "S1", "P", seq) for seq in (1, 2, 3)]
    assert [story.ended for story in told] == ["delivered", "lost", "delivered"]
    # P holds the subscription of S2 only; that of S1 comes over the slow link in round 28.
    assert cause(told[1]) == ("subscription_under_way", "P", 21)
    assert "round 28" in told[1].verdict
    assert told[1].is_expected


def test_a_subscription_that_its_messages_do_not_name_is_explained_by_the_latency(
    sail: Session, tmp_path: Path
) -> None:
    """A message SUB of epidemic names a pattern. The unsubscription of round 80 explains nothing: it is too late."""
    workload = {
        "subscriptions": [{"at": "S", "round": 40, "topic": "a", "until": 80}],
        "publications": [{"at": at, "round": round_, "topic": "a"} for at, round_ in
                         (("A", 47), ("B", 47), ("A", 50), ("A", 79))],
    }  # fmt: skip
    given = scenario(
        protocol={"name": "epidemic"}, overlay={"links": [["A", "B", 5], ["B", "S", 4]]}, workload=workload,
        time={"rounds": 200},
    )  # fmt: skip
    result = opened(run_all(run_configs([given]), sail, tmp_path))
    early = result.why(0, "S", "A", 1)
    assert (early.ended, cause(early), early.is_expected) == ("lost", ("subscription_under_way", "A", 47), False)
    words = "the subscription that S issued in round 40 takes 9 rounds to A; the delivery was not guaranteed"
    assert words in early.verdict
    assert [result.why(0, "S", source, seq).ended for source, seq in (("B", 1), ("A", 2))] == ["delivered"] * 2
    late = result.why(0, "S", "A", 3)
    assert (late.ended, cause(late)) == ("not_matching", ("unsubscribed", "S", 80))


def test_a_subscription_confirmed_early_is_explained_by_the_crash(sail: Session, tmp_path: Path) -> None:
    """With δ = 0, S waits for B's CONF only. B crashes after it has sent the subscription on to C."""
    links = [["S", "B", 2], ["B", "C", 2], ["C", "D", 5], ["D", "P"]]
    given = scenario(
        protocol={"name": "delta", "delta": 0},
        overlay={"links": links},
        workload={
            "subscriptions": [{"at": "S", "round": 10, "topic": "t"}],
            "publications": [{"at": "P", "round": round_, "topic": "t"} for round_ in (12, 18)],
        },
        faults=[down("B", 13)],
        time={"rounds": HORIZON},
    )
    result = opened(run_all(run_configs([given]), sail, tmp_path))
    told = [result.why(0, "S", "P", seq) for seq in (1, 2)]
    assert [cause(story) for story in told] == [("not_confirmed", "S", 10), ("crash", "B", 13)]
    assert "was confirmed in round 18 because B was down (from round 13 on), but arrived only in" in told[1].verdict


def test_a_lost_message_that_hands_subscriptions_to_a_joining_broker_explains_a_loss(
    sail: Session, tmp_path: Path
) -> None:
    """J joins at B, whose PAR_SUB with the subscription of S is lost, so J never learns of S."""
    given = scenario(
        protocol=DELTA,
        overlay={"links": [["S", "B"], ["B", "J"]]},
        workload={
            "joins": [{"node": "J", "to": "B", "round": 20}],
            "subscriptions": [{"at": "S", "round": 0, "topic": "t"}],
            "publications": [{"at": "J", "round": 40, "topic": "t"}],
        },
        faults=[{"kind": "loss", "nth": 1, "kinds": ["PAR_SUB"]}],
        time={"rounds": HORIZON},
    )
    result = opened(run_all(run_configs([given]), sail, tmp_path))
    told = result.why(0, "S", "J", 1)
    assert (told.ended, cause(told)) == ("lost", ("link", "J", 22))
    assert "the last message lost on the path before that was PAR_SUB, sent from B to J in round 21" in told.verdict


@pytest.mark.parametrize("protocol", ["forwarding", "epidemic"])
def test_a_publication_that_was_issued_before_the_subscription_says_so(
    sail: Session, tmp_path: Path, protocol: str
) -> None:
    """S subscribes in round 40. A delay lets the publication of round 30 arrive after that, but that of 34 has no way.

    X, behind S, has its own subscription, which matches the first publication only.
    """
    given = scenario(
        protocol={"name": protocol},
        overlay={"links": [["P", "A"], ["A", "S"], ["S", "X"]]},
        workload={
            "subscriptions": [{"at": "X", "topic": "t", "where": "n = 1"}, {"at": "S", "round": 40, "topic": "t"}],
            "publications": [
                {"at": "P", "round": at, "topic": "t", "content": {"n": n}} for at, n in ((30, 1), (34, 2), (48, 2))
            ],
        },
        faults=[{"kind": "delay", "rounds": [15, 15], "links": [["A", "S"]], "round": 31, "until": 32}],
        time={"rounds": HORIZON + 10},
    )
    result = opened(run_all(run_configs([given]), sail, tmp_path))
    told = result.why(0, "S", "P", 2)
    assert (told.ended, cause(told)) == ("lost", ("subscription_under_way", "P", 34))
    assert "P published it in round 34, before S subscribed in round 40" in told.verdict


def test_a_publication_that_came_before_the_subscription_says_so(sail: Session, tmp_path: Path) -> None:
    """A loses the copy of publication 1 to S, so it comes by way of X, after publication 2 and the subscription."""
    given = scenario(
        protocol={"name": "flooding"},
        overlay={"links": [["P", "S"], ["P", "X", 5], ["X", "S", 5]]},
        workload={
            "subscriptions": [{"at": "S", "round": 22, "topic": "t"}],
            "publications": [{"at": "P", "round": at, "topic": "t"} for at in (20, 21)],
        },
        faults=[{"kind": "loss", "nth": 1, "kinds": ["PUB"], "to": "S"}],
        time={"rounds": HORIZON},
    )
    result = opened(run_all(run_configs([given]), sail, tmp_path))
    assert result.why(0, "S", "P", 1).ended == "delivered"
    told = result.why(0, "S", "P", 2)
    assert (told.ended, told.verdict) == ("lost", "lost: S received it in round 22, before S subscribed in round 22")


def test_a_broker_that_came_back_without_its_entries_is_told(forwarding: Result) -> None:
    lost = forwarding.why(1, "S1", "P1", 2)
    assert (lost.ended, lost.node, cause(lost)) == ("lost", "A", ("crash", "B", 16))
    dropped = forwarding.why(1, "S1", "P1", 5)
    assert (dropped.ended, dropped.node, cause(dropped)) == ("lost", "B", ("crash", "B", 16))
    assert "without the subscription of S1" in dropped.verdict
    assert copies(dropped)[-1] == ("A", "B", 34, "delivered")


def missing(result: Result, first: int) -> Sequence[Story]:
    found = result.sql(f"select * from missing_delivery where run_id >= {first}").collect()
    return stories(result.reader, [Question(row.run_id, row.subscriber, row.source, row.source_seq) for row in found])


@pytest.mark.parametrize("name", ["forwarding", "delta"])
def test_the_cause_of_every_loss_is_a_crash_on_the_way(name: str, request: pytest.FixtureRequest) -> None:
    result: Result = request.getfixturevalue(name)
    told = missing(result, {"forwarding": 2, "delta": RANDOM}[name])
    crashes = {
        row[:3] for row in rows(Store(result.store, result.session), "fault_event", "run_id", "node_id", "round")
    }
    for story in told:
        assert story.cause is not None, story
        assert (story.ended, story.cause.kind) == ("lost", "crash"), story
        assert story.names[story.cause.node] in story.path, story
        assert (story.run_id, story.cause.node, story.cause.round) in crashes, story
        assert story.is_expected, story
    n_runs = len({story.run_id for story in told})
    print(f"{name}: {len(told)} losses in {n_runs} of {N_RANDOM} runs, ended at {Counter(s.node for s in told)}")
    assert n_runs > 1


def test_one_story_is_the_same_as_many_at_once(forwarding: Result) -> None:
    for story in missing(forwarding, 2)[:3]:
        assert forwarding.why(story.run_id, story.subscriber, story.source, call=story.call) == story


def test_the_command_prints_a_tree_or_json(forwarding: Result) -> None:
    question = ["why", str(forwarding.store), "--run", "1", "--subscriber", "S1", "--source", "P1", "--seq", "2"]
    printed = CliRunner().invoke(app, question)
    assert (printed.exit_code, printed.stdout.rstrip()) == (0, str(forwarding.why(1, "S1", "P1", 2)))
    told = json.loads(CliRunner().invoke(app, [*question, "--json"]).stdout)
    assert told == forwarding.why(1, "S1", "P1", 2).as_dict()
    assert told["cause"]["kind"] == "crash"


@pytest.mark.parametrize(
    ("run", "subscriber", "source", "seq", "words"),
    [
        (99, "S1", "P1", 1, "run 99 does not exist; the store has runs 0 to "),
        (1, "S1", "P11", 1, "node 'P11' does not exist in run 1; did you mean 'P1'? known: P1, A, B"),
        (1, "S1", "P1", 6, "publication 6 of P1 does not exist in run 1; it issued 5 publications"),
        (1, "S1", "S2", 1, "publication 1 of S2 does not exist in run 1; it issued 0 publications"),
        (1, "S1", "B", 1, "its calls while it was down (rounds 16 to 22) were never issued"),
    ],
)
def test_questions_that_cannot_be_answered_say_what_there_is(
    forwarding: Result, run: int, subscriber: str, source: str, seq: int, words: str
) -> None:
    with pytest.raises(QueryError) as caught:
        forwarding.why(run, subscriber, source, seq)
    assert words in str(caught.value)
    options = ["--run", str(run), "--subscriber", subscriber, "--source", source, "--seq", str(seq)]
    printed = CliRunner().invoke(app, ["why", str(forwarding.store), *options])
    assert (printed.exit_code, printed.stdout) == (64, "")
    assert words in printed.stderr
