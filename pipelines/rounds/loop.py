"""The loop over rounds: selects the rounds of each job, commits, and handles failed jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from pyspark.errors import PySparkException

from pipelines.contract.nodes import program_error
from pipelines.experiment.jobs import Jobs
from pipelines.rounds.commit import History
from pipelines.rounds.progress import Progress

_MAX_BUFFERED = 2_000_000
_MAX_HELD_BYTES = 2 * 1024**3


class Rounds(ABC):
    """Executes the rounds of the runs of one protocol. Each form of protocols (program, dataflow) has a subclass.

    Attributes:
        name: The name of the protocol.
        round: The last executed round; -1 before the first round.
        history: Buffers history rows.
    """

    name: str
    round: int
    history: History

    @property
    @abstractmethod
    def n_in_flight(self) -> int:
        """The number of messages in flight."""

    @abstractmethod
    def next_round(self) -> int | None:
        """Returns the next round with an event; None if no event remains."""

    @abstractmethod
    def play(self, upcoming: int, last: int) -> int:
        """Executes rounds from `upcoming` up to `last` at most, in one job; returns the number of due messages.

        Raises:
            PySparkException: The job failed; the state is still the state before the job.
        """

    def play_ahead(self, upcoming: int, last: int) -> None:  # noqa: B027 - optional
        """Starts the job whose result the next call of `play` returns. The job may run during a commit.

        The next call of `play` must have the same arguments.
        """

    @abstractmethod
    def commit(self, horizon: int | None = None) -> None:
        """Writes the buffered history rows and the changed state. The final commit gets the `horizon` of the runs.

        A message is in flight at the final commit only if it is due after the horizon. ``remaining_rounds`` then counts
        from the horizon, because the last round of a job depends on all of its runs.
        """

    def close(self) -> None:  # noqa: B027 - optional
        """Ends the running job. `play` cannot be called after `close`."""


class Loop:
    """Executes the runs of one protocol until no event remains or the horizon is reached."""

    def __init__(self, rounds: Rounds, jobs: Jobs, horizon: int) -> None:
        """Starts after the last executed round of `rounds`; `horizon` is the greatest round number."""
        self._rounds, self._jobs, self._horizon = rounds, jobs, horizon
        self._most = jobs.rounds_per_job
        self._n_rounds = int(rounds.history.first_round is not None)  # the start counts as a round
        self._n_buffered = 0

    def run(self, scheduled_round: int, observe: Callable[[Progress], None]) -> None:
        """Executes rounds until no event remains or `horizon` is reached; the last commit writes all remaining rows.

        The interval between two commits is shortened if the buffered messages are many or take much memory.

        Args:
            scheduled_round: The last round with a call or a fault.
            observe: Receives the progress after each job.

        Raises:
            NodeProgramError: A handler of a node program failed.
        """
        rounds, jobs = self._rounds, self._jobs
        upcoming = self._upcoming()
        while upcoming is not None:
            last = self._last(upcoming)
            try:
                n_handled = rounds.play(upcoming, last)
            except PySparkException as error:
                self._most = self._shorter(error, last - upcoming + 1)
                continue
            is_large = n_handled > _MAX_BUFFERED
            self._most = max(1, self._most // 2) if is_large else min(jobs.rounds_per_job, 2 * self._most)
            observe(Progress(rounds.round, rounds.n_in_flight, n_handled, scheduled_round))
            self._n_buffered, self._n_rounds = self._n_buffered + n_handled, self._n_rounds + last - upcoming + 1
            upcoming = self._upcoming()
            if upcoming is not None and self._is_full():
                self._n_buffered = self._n_rounds = 0
                rounds.play_ahead(upcoming, self._last(upcoming))
                rounds.commit()
        rounds.commit(self._horizon)

    def _upcoming(self) -> int | None:
        upcoming = self._rounds.next_round()
        return upcoming if upcoming is not None and upcoming <= self._horizon else None

    def _last(self, upcoming: int) -> int:
        """Returns the last round of a job that starts at `upcoming`. No job passes the round of the next commit."""
        n_rounds = max(1, min(self._most, self._jobs.commit_every - self._n_rounds))
        return min(self._horizon, upcoming + n_rounds - 1)

    def _is_full(self) -> bool:
        is_much = self._n_buffered >= _MAX_BUFFERED or self._rounds.history.n_bytes >= _MAX_HELD_BYTES
        return is_much or self._n_rounds >= self._jobs.commit_every

    def _shorter(self, error: PySparkException, n_rounds: int) -> int:
        """Returns the number of rounds of the next attempt after a job failed in a handler: half of `n_rounds`.

        After several attempts, a job ends just before the failing round. Rounds before a failing job of one round are
        committed, and the error of the handler is raised.
        """
        failed = program_error(error, self._rounds.name)
        if failed is None:
            raise error
        if n_rounds > 1:
            return n_rounds // 2
        if self._rounds.round >= 0:
            with suppress(PySparkException):  # rounds that cannot be committed are executed again by resume
                self._rounds.commit()
        raise failed from error
