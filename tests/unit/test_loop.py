"""The loop over rounds: jobs up to the next commit, what is played ahead, and jobs that fail."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from pipelines.contract.forms import Form
from pipelines.errors import NodeProgramError
from pipelines.experiment.jobs import COMMIT_BLOCKS_EVERY, COMMIT_EVERY, COMMIT_MANY_EVERY, MANY_RUNS, Jobs, jobs_of
from pipelines.rounds.commit import History
from pipelines.rounds.loop import Loop, Rounds
from pipelines.rounds.progress import Progress


class Buffer:
    """A history that counts."""

    first_round: int | None = None
    n_bytes = 0


class Told(Rounds):
    """Rounds that note what they are told; a message is due in each of some rounds."""

    def __init__(self, due: range, fails_in: int | None = None, what: str = "ProgramError: planted") -> None:
        self.name, self.round = "flood", -1
        self.history = cast(History, Buffer())
        self.told: list[Any] = []
        self._due, self._fails_in, self._what = due, fails_in, what

    @property
    def n_in_flight(self) -> int:
        return 7

    def next_round(self) -> int | None:
        return next((round_ for round_ in self._due if round_ > self.round), None)

    def play(self, upcoming: int, last: int) -> int:
        self.told.append((upcoming, last))
        if self._fails_in is not None and upcoming <= self._fails_in <= last:
            raise PySparkException(self._what)
        self.round = max(round_ for round_ in self._due if round_ <= last)
        return last - upcoming + 1

    def play_ahead(self, upcoming: int, last: int) -> None:
        self.told.append(("ahead", upcoming, last))

    def commit(self, horizon: int | None = None) -> None:
        self.told.append("commit" if horizon is None else "end")


def run(rounds: Told, jobs: Jobs, horizon: int = 100) -> list[Any]:
    """Plays rounds; returns their arguments."""
    Loop(rounds, jobs, horizon).run(0, lambda progress: None)
    return rounds.told


def test_a_job_goes_up_to_the_next_commit_while_which_the_next_is_played() -> None:
    told = run(Told(range(2, 25)), Jobs(10, 10, ""))
    assert told == [(2, 11), ("ahead", 12, 21), "commit", (12, 21), ("ahead", 22, 31), "commit", (22, 31), "end"]


def test_jobs_may_be_shorter_than_the_time_between_commits() -> None:
    assert run(Told(range(7)), Jobs(2, 4, "")) == [(0, 1), (2, 3), ("ahead", 4, 5), "commit", (4, 5), (6, 7), "end"]


def test_no_round_comes_after_the_horizon() -> None:
    assert run(Told(range(50)), Jobs(10, 10, ""), horizon=14) == [
        (0, 9), ("ahead", 10, 14), "commit", (10, 14), "end",
    ]  # fmt: skip


def test_runs_in_which_nothing_happens_are_committed_once() -> None:
    assert run(Told(range(0)), Jobs(10, 10, "")) == ["end"]


def test_all_rounds_before_one_that_fails_are_played_and_committed() -> None:
    rounds = Told(range(20), fails_in=5)
    with pytest.raises(NodeProgramError, match="planted"):
        run(rounds, Jobs(8, 8, ""))
    assert rounds.told == [
        (0, 7), (0, 3), (4, 7), (4, 5), (4, 4), (5, 6), (5, 5),
        "commit",
    ]  # fmt: skip
    assert rounds.round == 4


def test_nothing_is_committed_where_the_first_round_fails() -> None:
    rounds = Told(range(20), fails_in=0)
    with pytest.raises(NodeProgramError):
        run(rounds, Jobs(2, 8, ""))
    assert rounds.told == [(0, 1), (0, 0)]


def test_what_is_no_fault_of_a_program_ends_the_loop_at_once() -> None:
    rounds = Told(range(20), fails_in=5, what="the server is gone")
    with pytest.raises(PySparkException, match="the server is gone"):
        run(rounds, Jobs(8, 8, ""))
    assert rounds.told == [(0, 7)]


def test_an_observer_is_told_of_each_job() -> None:
    told: list[Progress] = []
    Loop(Told(range(5)), Jobs(3, 3, ""), 100).run(4, told.append)
    assert told == [Progress(2, 7, 3, 4), Progress(4, 7, 3, 4)]


@pytest.mark.parametrize(
    ("form", "n_runs", "asked", "found"),
    [
        ("dataflow", 1000, None, (1, COMMIT_EVERY)),
        ("program", MANY_RUNS - 1, None, (COMMIT_BLOCKS_EVERY, COMMIT_BLOCKS_EVERY)),
        ("program", MANY_RUNS, None, (COMMIT_MANY_EVERY, COMMIT_MANY_EVERY)),
        ("program", MANY_RUNS, 10, (10, COMMIT_MANY_EVERY)),
        ("program", MANY_RUNS, 1, (1, COMMIT_MANY_EVERY)),
    ],
)
def test_how_many_rounds_a_job_has(form: Form, n_runs: int, asked: int | None, found: tuple[int, int]) -> None:
    jobs = jobs_of(form=form, n_runs=n_runs, asked=asked)
    assert (jobs.rounds_per_job, jobs.commit_every) == found


def test_commits_are_as_far_apart_as_asked_for() -> None:
    jobs = jobs_of(form="program", n_runs=1000, commit_every=7)
    assert (jobs.rounds_per_job, jobs.commit_every) == (7, 7)
