"""Goes on from the ledger when an executor dies: what it kept in its memory is gone, what is committed is not."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.engines.losses import is_executor_lost
from pipelines.engines.session import Session
from pipelines.errors import EngineError
from pipelines.experiment.batches import Batch
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.store.folder import resume_hint
from pipelines.store.ledger import Commit, Ledger
from pipelines.store.store import Store

MOST_LOSSES = 4
"""How often executors may be lost between two commits."""


def execute_and_survive(
    experiment: Experiment, session: Session, open_store: Callable[[], Store], observe: Callable[[Progress], None],
    start: Callable[[Batch], None], say: Callable[[str], None],
) -> None:  # fmt: skip
    """Runs all rounds of all runs as `execute` does, and again from the last commit when an executor is lost.

    Args:
        experiment: As in `execute`, like the others that are not named here.
        session: As in `execute`.
        open_store: Returns the store; what one knows of the versions of its tables ends with a failure.
        observe: As in `execute`.
        start: As in `execute`.
        say: Told, in one line each, that executors were lost, and where it goes on.

    Raises:
        EngineError: Executors were lost several times without a commit between.
    """
    n_losses, before = 0, last_commit(open_store())
    while True:
        try:
            execute(experiment, session, open_store(), observe, start)
        except Exception as error:
            if not is_executor_lost(error):
                raise
            last = last_commit(open_store())
            n_losses = n_losses + 1 if last == before else 1
            before = last
            if n_losses > MOST_LOSSES:
                raise EngineError(
                    f"executors were lost {n_losses} times without a commit between: give them more memory, or commit "
                    f"more often (--commit-every); {resume_hint(open_store().root)}"
                ) from error
            say(f"an executor was lost with what it kept in memory: going on {done(last)}")
        else:
            return


def last_commit(store: Store) -> Commit | None:
    """Returns the newest commit of a store; None where nothing is committed."""
    return Ledger.read(store).last if store.is_committed() else None


def done(last: Commit | None) -> str:
    """Returns where a store stops, in words."""
    if last is None:
        return "from the beginning"
    ended = f"run {last.last_run:,}" if last.is_final else f"round {last.last_round:,}"
    return f"after {ended}"
