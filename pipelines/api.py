"""Roundtable from Python: run a scenario, open a store, ask it in SQL."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from pipelines.audits.run import AuditReport, Verdict, audit_store, record
from pipelines.errors import StoreError, nearest
from pipelines.execute import Experiment, execute, protocol_module
from pipelines.plan import Prepared, build, counted, prepare
from pipelines.query import StoreReader
from pipelines.rounds import Progress
from pipelines.session import Engine, Session, open_session
from pipelines.store import Store

COMMIT_EVERY = 20
LATEST = "latest"
_LEDGER = Path("round_commit", "_delta_log")
_SHOWN = 5


@dataclass(frozen=True)
class RunRow:
    """How one run ended: a row of table ``run``.

    Attributes:
        run_id: Its id in all tables.
        seed: What its random draws started from.
        parameters: Settings of the protocol and values of the grid, path to value.
        verdict: ``valid``, ``invalid`` or ``unknown``.
        within_bound: Whether the faults stayed within what the protocol promises to bear; None: not audited.
        rounds: The last round in which anything happened; None: not audited.
    """

    run_id: int
    seed: int
    parameters: Mapping[str, Any]
    verdict: Verdict
    within_bound: bool | None
    rounds: int | None


class Result:
    """A store that is open. A context manager: leaving it stops the engine, unless it is the caller's.

    Attributes:
        store: Folder of the store.
        session: The engine that answers.
        reader: The store's tables and views.
        runs: How the runs ended, by id.
    """

    def __init__(self, store: Path, session: Session) -> None:
        """Reads how the runs ended.

        Args:
            store: Folder of the store.
            session: The engine that answers; closed with the result.
        """
        self.store = store
        self.session = session
        self.reader = StoreReader(session, store.absolute())
        self.runs = _runs(self.reader)

    @property
    def verdict(self) -> Verdict:
        """``invalid`` if a guarantee is broken in any run, else ``unknown`` if any is not decided, else ``valid``."""
        found = {run.verdict for run in self.runs}
        if "invalid" in found:
            return "invalid"
        return "valid" if found == {"valid"} else "unknown"

    @property
    def violations(self) -> DataFrame:
        """Table ``violation``: one row a broken guarantee."""
        return self.table("violation")

    def table(self, name: str, as_of_round: int | None = None) -> DataFrame:
        """Gives a table of the store, or a view.

        Args:
            name: Its bare name.
            as_of_round: Only what was so at the end of this round; None for all.

        Raises:
            QueryError: There is no such table.
        """
        return self.reader.table(name, as_of_round)

    def sql(self, text: str, as_of_round: int | None = None) -> DataFrame:
        """Answers a SQL query over the tables and the views, by their bare names.

        Args:
            text: One SELECT.
            as_of_round: Only what was so at the end of this round; None for all.

        Raises:
            QueryError: The query cannot be answered.
        """
        return self.reader.sql(text, as_of_round)

    def audit(self) -> AuditReport:
        """Checks every guarantee again, from the history alone, and writes the verdicts into the store.

        Returns:
            What each audit found; `runs` and `verdict` follow it.

        Raises:
            StoreError: The runs are not finished.
        """
        if not self.reader.is_finished():
            raise StoreError(
                f"the runs in {str(self.store)!r} are not finished: the last round is {self.reader.last_round()}, and "
                "more were to come; run the scenario again, with a new --store"
            )
        [row] = self.reader.sql("select distinct protocol from run").collect()
        report = audit_store(self.reader, self.session, protocol_module(row.protocol))
        record(report, Store(self.store.absolute(), self.session))
        report.release()
        self.runs = _runs(self.reader)
        return report

    def close(self) -> None:
        """Stops the engine, unless it is the caller's."""
        self.session.close()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()


def run(
    path: str | Path, spark: SparkSession | None = None, store: str | Path | None = None,
    engine: Engine | None = None, overrides: Sequence[str] = (), commit_every: int = COMMIT_EVERY,
    observe: Callable[[Progress], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Runs a scenario and audits it.

    Args:
        path: The scenario file.
        spark: A session to use as it is; None starts the engine.
        store: Folder for the store, new or empty; None for ``runs/<scenario>/<UTC time>``.
        engine: ``spark``, ``connect`` or ``sail``; None for the scenario's.
        overrides: Values set from outside, each ``path=value``.
        commit_every: Rounds between commits.
        observe: Is told of each round.

    Returns:
        The store, open.

    Raises:
        ScenarioError: The scenario or a file that it names is wrong; nothing was written.
        StoreError: The folder is not empty, or cannot be written.
        EngineError: The engine cannot be started.
    """
    prepared = prepare(Path(path), overrides)
    root = None if store is None else Path(store)
    with ExitStack() as closing:
        result = closing.enter_context(
            run_prepared(prepared, spark=spark, store=root, engine=engine, commit_every=commit_every, observe=observe)
        )
        result.audit()
        closing.pop_all()
    return result


def run_prepared(
    prepared: Prepared, *, spark: SparkSession | None = None, store: Path | None = None, engine: Engine | None = None,
    commit_every: int = COMMIT_EVERY, observe: Callable[[Progress], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Runs a scenario that was read already, without an audit.

    Args:
        prepared: The scenario.
        spark: As in `run`, like the others that are not named here.
        store: As in `run`.
        engine: As in `run`.
        commit_every: As in `run`.
        observe: As in `run`.
        say: Told, in one line each, what goes on before the rounds.
    """
    if store is not None:
        _check_empty(store)
    say(f"building {counted(len(prepared.runs), 'run')}")
    experiment = Experiment(prepared.runs, build(prepared), commit_every)
    chosen: Engine = engine or prepared.scenario.engine
    with ExitStack() as closing:
        session = closing.enter_context(open_session(chosen, spark, say))
        with _new_store(store, prepared.scenario.name) as root:
            say(f"protocol {prepared.protocol} on {session.engine}, for at most {prepared.horizon:,} rounds")
            execute(experiment, session, Store(root.absolute(), session), observe)
        if store is None:
            _link_latest(root)
        result = Result(root, session)
        closing.pop_all()
    return result


def open_store(path: str | Path, spark: SparkSession | None = None, engine: Engine | None = None) -> Result:
    """Opens a store that exists.

    Args:
        path: Its folder.
        spark: A session to use as it is; None starts the engine.
        engine: ``spark``, ``connect`` or ``sail``; None for the fastest that is installed.

    Raises:
        StoreError: The folder is no store.
        EngineError: The engine cannot be started.
    """
    root = Path(path)
    check_store(root)
    with ExitStack() as closing:
        session = closing.enter_context(open_session(engine or fastest_engine(), spark))
        result = Result(root, session)
        closing.pop_all()
    return result


def fastest_engine() -> Engine:
    """Returns the engine that answers queries fastest among those that are installed."""
    return "sail" if find_spec("pysail") is not None else "spark"


def check_store(root: Path) -> None:
    """Checks that a folder is a store, without an engine.

    Raises:
        StoreError: It is not there, or it is none.
    """
    if (root / _LEDGER).is_dir():
        return
    if not root.exists():
        beside = sorted(path.name for path in root.parent.iterdir()) if root.parent.is_dir() else []
        raise StoreError(
            f"there is no store {str(root)!r};{nearest(root.name, beside)} run a scenario with --store {root}"
        )
    if not root.is_dir():
        raise StoreError(f"{str(root)!r} is a file, not a store; name the folder that `run` wrote")
    inside = [path for path in root.iterdir() if (path / _LEDGER).is_dir()]
    hint = (
        f"; its stores are {_some(path.name for path in sorted(inside))}"
        if inside
        else "; name the folder that `run` wrote"
    )
    raise StoreError(f"{str(root)!r} is no store: it has no table round_commit{hint}")


def _check_empty(root: Path) -> None:
    if root.is_dir():
        inside = sorted(path.name for path in root.iterdir())
        if inside:
            what = "a store is there already" if (root / _LEDGER).is_dir() else f"it holds {_some(inside)}"
            raise StoreError(f"the store {str(root)!r} is not empty: {what}; name a new folder, or remove this one")
    elif root.exists() or root.is_symlink():
        raise StoreError(f"the store {str(root)!r} is a file or a dangling link; name a folder that is new or empty")


@contextmanager
def _new_store(given: Path | None, scenario: str) -> Iterator[Path]:
    """Makes the folder of a store; an error before the first commit leaves nothing behind."""
    root = given if given is not None else _free_default(scenario)
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    try:
        root.mkdir(parents=True, exist_ok=given is not None)
    except OSError as error:
        raise StoreError(f"the store {str(root)!r} cannot be made: {error.strerror}; name another folder") from error
    try:
        yield root
    except BaseException as error:
        if len(list((root / _LEDGER).glob("*.json"))) <= 1:
            _remove(root, missing)
        else:
            error.add_note(f"the rounds that were committed stay in {root}")
        raise


def _remove(root: Path, made: Sequence[Path]) -> None:
    for path in root.iterdir():
        shutil.rmtree(path)
    for folder in made:
        with suppress(OSError):  # another run may use it by now
            folder.rmdir()


def _free_default(scenario: str) -> Path:
    folder = Path("runs", scenario)
    name = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    names = (name, *(f"{name}-{rank}" for rank in range(2, 1000)))
    return next(folder / free for free in names if not (folder / free).exists())


def _link_latest(root: Path) -> None:
    """Points ``runs/<scenario>/latest`` to a store, in one step."""
    link, new = root.parent / LATEST, root.parent / f".{LATEST}-{root.name}"
    with suppress(OSError):  # not every file system has links, and the store is there without
        new.symlink_to(root.name)
        new.replace(link)


def _runs(reader: StoreReader) -> list[RunRow]:
    columns = "run_id", "seed", "parameters", "verdict", "within_bound", "rounds"
    rows = reader.table("run").select(*columns).orderBy("run_id").collect()
    return [
        RunRow(row.run_id, row.seed, json.loads(row.parameters), row.verdict or "unknown", row.within_bound, row.rounds)
        for row in rows
    ]


def _some(names: Iterable[str]) -> str:
    first = list(islice(names, _SHOWN + 1))
    return ", ".join(first[:_SHOWN]) + (", ..." if len(first) > _SHOWN else "")
