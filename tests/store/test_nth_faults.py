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
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.store.store import Store
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


STRUCK: dict[str, tuple[dict[str, Any], ...]] = {
    "nothing": (), "loss": (LOSS,), "copy": (COPY,), "late": (LATE,), "later": (LATER,), "all": (LOSS, COPY, LATE),
    "resumed": (LOSS, {**COPY, "nth": 2}, LATE),
}  # fmt: skip
"""The faults of a run, by its name."""


def played(sail: Session, folder: Path, commit_every: int = 200) -> dict[str, Rows]:
    """Plays all runs of `STRUCK`; returns the publications of each run."""
    runs = run_configs([{**BASE, "faults": [*faults]} for faults in STRUCK.values()], [0] * len(STRUCK))
    columns = ("run_id", "message_id", "src", "dst", "sent_round", "due_round", "fate", "kind")
    found = rows(run_all(runs, sail, folder, commit_every), "message", *columns)
    return {
        name: sorted(row[1:-1] for row in found if row[0] == run and row[-1] == "PUB")
        for run, name in enumerate(STRUCK)
    }


@pytest.fixture(scope="module")
def struck(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """The publications of all runs, in one block of rounds."""
    return played(sail, tmp_path_factory.mktemp("struck"))


@pytest.fixture(scope="module")
def whole(struck: dict[str, Rows]) -> Rows:
    """The publications of a run without faults."""
    return struck["nothing"]


def test_without_faults_every_message_is_delivered(whole: Rows) -> None:
    assert [row[1:] for row in whole] == [
        (src, src + 1, sent + src, sent + src + 1, "delivered") for sent in (20, 30, 40) for src in range(3)
    ]


def test_a_loss_strikes_the_nth_message_alone(whole: Rows, struck: dict[str, Rows]) -> None:
    """Nothing but the message, and what it would have brought about, differs from a run without the fault."""
    assert struck["loss"] == [
        (*row[:5], "lost_link") if row[3] == 31 and row[1] == 1 else row
        for row in whole if row[1:4] != (2, 3, 32)
    ]  # fmt: skip


def test_a_copy_has_an_id_of_its_own_and_all_others_keep_theirs(whole: Rows, struck: dict[str, Rows]) -> None:
    [original] = [row for row in whole if row[1:4] == (0, 1, 40)]
    assert set(struck["copy"]) - set(whole) == {(original[0] + COPY_ID, 0, 1, 40, 43, "duplicate")}
    assert set(whole) <= set(struck["copy"])


def test_without_sender_and_receiver_all_messages_count(struck: dict[str, Rows]) -> None:
    """Fault `LATER` counts messages of all kinds, from round 35 on."""
    for name, due in (("late", 46), ("later", 45)):
        assert [row[1:5] for row in struck[name] if row[4] - row[3] > 1] == [(0, 1, 40, due)]


def test_a_count_goes_on_over_blocks(sail: Session, struck: dict[str, Rows], tmp_path: Path) -> None:
    assert played(sail, tmp_path, commit_every=7) == struck


def test_a_resumed_run_counts_what_the_history_holds(
    sail: Session, struck: dict[str, Rows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is interrupted in round 30 or later, with messages and their copy counted before."""
    from pipelines.rounds.blocks import Blocks

    commit, runs = Blocks.commit, run_configs([{**BASE, "faults": [*STRUCK["resumed"]]}])
    experiment, store = Experiment(runs, build_inputs(runs, None), 6), Store(tmp_path, sail)

    def stopping(blocks: Blocks, horizon: int | None = None) -> None:
        commit(blocks, horizon)
        if blocks.round >= 30:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Blocks, "commit", stopping)
        with pytest.raises(KeyboardInterrupt):
            execute(experiment, sail, store, lambda progress: None)
    execute(experiment, sail, Store(tmp_path, sail), lambda progress: None)
    columns = ("message_id", "src", "dst", "sent_round", "due_round", "fate", "kind")
    assert sorted(row[:-1] for row in rows(store, "message", *columns) if row[-1] == "PUB") == struck["resumed"]


def test_a_resumed_run_counts_alike_beside_one_whose_links_duplicate(sail: Session, tmp_path: Path) -> None:
    """Where links duplicate, every other message id is free for copies; in the other run it is not."""
    twice = {"kind": "duplicate", "rate": 1.0, "kinds": ["PUB"], "after": [1, 1]}
    runs = run_configs([{**BASE, "faults": [LOSS, LATE]}, {**BASE, "faults": [twice]}])
    stopped = broken_off(runs, sail, tmp_path / "stopped", after=6, commit_every=1)
    columns = ("run_id", "message_id", "due_round", "fate")
    assert rows(stopped, "message", *columns) == rows(run_all(runs, sail, tmp_path), "message", *columns)


def test_why_names_the_fault(sail: Session, tmp_path: Path) -> None:
    """In run 0, the fault counts to the second message from B to C from round 25 on, which is too late."""
    faults, grid = [{**LOSS, "round": 25, "until": 35}], {"faults.0.nth": [2, 1]}
    with rt.run({**BASE, "faults": faults, "runs": {"grid": grid}}, sail.spark, tmp_path / "s") as result:
        told = [" ".join(str(result.why(run, "D", "A", seq=2)).split()) for run in (0, 1)]
    assert "delivered: to D" in told[0]
    assert "lost on the link from B (loss: round" in told[1]


def test_why_names_a_subscription_that_a_newer_one_overtook(sail: Session, tmp_path: Path) -> None:
    """C subscribes to a, then to b. A takes the SUB for a, which comes late, for a duplicate."""
    subscriptions = [{"at": "C", "topic": topic} for topic in ("a", "b")]
    late = {"kind": "delay", "kinds": ["SUB"], "from": "B", "to": "A", "nth": 1, "rounds": [5, 5], "reorder": True}
    scenario = {
        **BASE, "protocol": {"name": "delta", "delta": 1}, "overlay": {"links": [["A", "B"], ["B", "C"]]},
        "workload": {"subscriptions": subscriptions, "publications": [{"at": "A", "round": 30, "topic": "a"}]},
        "faults": [late],
    }  # fmt: skip
    with rt.run(scenario, sail.spark, tmp_path / "s") as result:
        told = " ".join(str(result.why(0, "C", "A", seq=1)).split())
    words = "A published it in round 30 and did not send it: A did not know the subscription that C issued in round 0"
    assert words in told
    assert "of which A dropped the first copy that it received, in round 7, as a duplicate: other messages had" in told


def test_form_dataflow_refuses_it_by_name(tmp_path: Path) -> None:
    with pytest.raises(FormError, match="has no form dataflow for these runs, which have faults with nth"):
        rt.run({**BASE, "faults": [LOSS]}, store=tmp_path / "s", form="dataflow")
    assert not (tmp_path / "s").exists()
    (tmp_path / "s.yaml").write_text(str({**BASE, "faults": [LOSS]}))
    assert "form      program: the only form for these runs" in cli("plan", tmp_path / "s.yaml").stdout
