"""Faults with ``nth`` strike one message: the one that they count to, in every block and after a resumption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.commands import cli
from support.replicas import broken_off

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import FormError
from pipelines.result import Result
from pipelines.testing import rows, run_all, run_configs
from udfs.nodes.link_faults import COPY_ID

BASE: dict[str, Any] = {
    "name": "one",
    "protocol": {"name": "flooding"},
    "overlay": {"links": [["A", "B"], ["B", "C"], ["C", "D"]]},
    "workload": {
        "subscriptions": [{"at": name, "topic": "a"} for name in ("B", "D")],
        "publications": [{"at": "A", "round": round_, "topic": "a"} for round_ in (20, 30, 40)],
    },
    "time": {"rounds": 60},
    "engine": "local",
}
Rows = list[tuple[Any, ...]]
LOSS = {"kind": "loss", "kinds": ["PUB"], "from": "B", "to": "C", "nth": 2}
COPY = {"kind": "duplicate", "kinds": ["PUB"], "to": "B", "nth": 3, "after": [2, 2]}
LATE = {"kind": "delay", "kinds": ["PUB"], "nth": 7, "rounds": [5, 5], "reorder": True}
LATER = {"kind": "delay", "nth": 1, "round": 35, "rounds": [4, 4], "reorder": True}


def played(store: Path, *faults: dict[str, Any], **options: Any) -> Result:
    return rt.run({**BASE, "faults": list(faults)}, store=store, **options)


def publications(result: Result) -> Rows:
    query = "select message_id, src, dst, sent_round, due_round, fate from message where kind = 'PUB' order by 1"
    return [tuple(row) for row in result.sql(query).collect()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The publications of a run without faults."""
    return publications(played(tmp_path_factory.mktemp("whole") / "s"))


def test_without_faults_every_message_is_delivered(whole: Rows) -> None:
    assert [row[1:] for row in whole] == [
        (src, src + 1, sent + src, sent + src + 1, "delivered") for sent in (20, 30, 40) for src in range(3)
    ]


def test_a_loss_strikes_the_nth_message_alone(whole: Rows, tmp_path: Path) -> None:
    """Nothing but the message, and what it would have brought about, differs from a run without the fault."""
    struck = publications(played(tmp_path / "s", LOSS))
    assert struck == [
        (*row[:5], "lost_link") if row[3] == 31 and row[1] == 1 else row
        for row in whole if row[1:4] != (2, 3, 32)
    ]  # fmt: skip


def test_a_copy_has_an_id_of_its_own_and_all_others_keep_theirs(whole: Rows, tmp_path: Path) -> None:
    struck = publications(played(tmp_path / "s", COPY))
    [original] = [row for row in whole if row[1:4] == (0, 1, 40)]
    assert set(struck) - set(whole) == {(original[0] + COPY_ID, 0, 1, 40, 43, "duplicate")}
    assert set(whole) <= set(struck)


def test_without_sender_and_receiver_all_messages_count(tmp_path: Path) -> None:
    late = [row[1:5] for row in publications(played(tmp_path / "a", LATE)) if row[4] - row[3] > 1]
    assert late == [(0, 1, 40, 46)]
    later = [row[1:5] for row in publications(played(tmp_path / "b", LATER)) if row[4] - row[3] > 1]
    assert later == [(0, 1, 40, 45)]  # counted from round 35 on, kinds of all sorts


def test_a_count_goes_on_over_blocks(tmp_path: Path) -> None:
    faults = (LOSS, COPY, LATE)
    blocks = played(tmp_path / "blocks", *faults, commit_every=7)
    assert publications(blocks) == publications(played(tmp_path / "one", *faults))


def test_a_resumed_run_counts_what_the_history_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is interrupted in round 30 or later, with messages and their copy counted before."""
    from pipelines.rounds.blocks import Blocks

    commit, faults = Blocks.commit, (LOSS, {**COPY, "nth": 2}, LATE)

    def stopping(blocks: Blocks, *, is_final: bool) -> None:
        commit(blocks, is_final=is_final)
        if blocks.round >= 30:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Blocks, "commit", stopping)
        with pytest.raises(KeyboardInterrupt):
            played(tmp_path / "stopped", *faults, commit_every=6)
    assert publications(rt.resume(tmp_path / "stopped")) == publications(played(tmp_path / "whole", *faults))


def test_a_resumed_run_counts_alike_beside_one_whose_links_duplicate(sail: Session, tmp_path: Path) -> None:
    """Where links duplicate, every other message id is free for copies; in the other run it is not."""
    twice = {"kind": "duplicate", "rate": 1.0, "kinds": ["PUB"], "after": [1, 1]}
    runs = run_configs([{**BASE, "faults": [LOSS, LATE]}, {**BASE, "faults": [twice]}])
    stopped = broken_off(runs, sail, tmp_path / "stopped", after=6, commit_every=1)
    columns = ("run_id", "message_id", "due_round", "fate")
    assert rows(stopped, "message", *columns) == rows(run_all(runs, sail, tmp_path), "message", *columns)


def test_why_names_the_fault(tmp_path: Path) -> None:
    played(tmp_path / "s", {**LOSS, "round": 25, "until": 35})  # the second from B to C, counted from round 25: none
    done = cli("why", tmp_path / "s", "--run", "0", "--subscriber", "D", "--source", "A", "--seq", "2")
    assert "delivered: to D" in done.stdout
    played(tmp_path / "t", {**LOSS, "round": 25, "until": 35, "nth": 1})
    done = cli("why", tmp_path / "t", "--run", "0", "--subscriber", "D", "--source", "A", "--seq", "2")
    assert "lost on the link from B (loss since round 25" in done.stdout


def test_why_names_a_subscription_that_a_newer_one_overtook(tmp_path: Path) -> None:
    """C subscribes to a, then to b. A takes the SUB for a, which comes late, for a duplicate."""
    subscriptions = [{"at": "C", "topic": topic} for topic in ("a", "b")]
    late = {"kind": "delay", "kinds": ["SUB"], "from": "B", "to": "A", "nth": 1, "rounds": [5, 5], "reorder": True}
    scenario = {
        **BASE, "protocol": {"name": "delta", "delta": 1}, "overlay": {"links": [["A", "B"], ["B", "C"]]},
        "workload": {"subscriptions": subscriptions, "publications": [{"at": "A", "round": 30, "topic": "a"}]},
        "faults": [late],
    }  # fmt: skip
    with rt.run(scenario, store=tmp_path / "s") as result:
        told = " ".join(str(result.why(0, "C", "A", seq=1)).split())
    assert "A passed it on to nobody in round 30: it did not know the subscription that C had issued in round 0" in told
    assert "of which A took the first copy that came to it, in round 7, for a duplicate, where others had over" in told


def test_form_dataflow_refuses_it_by_name(tmp_path: Path) -> None:
    with pytest.raises(FormError, match="has no form dataflow for these runs, which have faults with nth"):
        played(tmp_path / "s", LOSS, form="dataflow")
    assert not (tmp_path / "s").exists()
    (tmp_path / "s.yaml").write_text(str({**BASE, "faults": [LOSS]}))
    assert "form      program: the only form for these runs" in cli("plan", tmp_path / "s.yaml").stdout
