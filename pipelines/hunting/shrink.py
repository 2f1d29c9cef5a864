"""Shrinks a run that breaks a guarantee; the result is a small scenario that breaks this guarantee.

A job executes and audits many candidate scenarios. Delta debugging removes atoms until each remaining atom is necessary
(Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering
28 (2), 2002). A step tests, for chunks of atoms of all sizes, whether the chunk can be removed. It then tests unions of
the removable chunks, and removes the largest union that can be removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from pipelines.audits.run import audits_of, beyond_runs, found_by
from pipelines.engines.session import Session
from pipelines.errors import InputError, NodeProgramError, QueryError, nearest, plural
from pipelines.experiment.build import build_inputs, build_run
from pipelines.experiment.listed import Parts, extracted, listed_scenario
from pipelines.experiment.mapping import Mapped
from pipelines.hunting.atoms import KINDS, Atom, atoms_of, with_streams, without
from pipelines.protocols import protocol_named
from pipelines.rounds.blocks import players
from pipelines.rounds.execute import Experiment, execute
from pipelines.scenario.expand import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.sql.differences import check_run
from pipelines.sql.query import StoreReader
from pipelines.sql.small_store import fast_reader
from pipelines.store.roots import Root
from pipelines.store.store import Store

_RUN = re.compile(r"\brun (\d+)\b")
Item = TypeVar("Item", bound=Hashable)
Fails = Callable[[Sequence[frozenset[Item]]], Sequence[bool]]
"""A function that returns, for each set of items, whether the test fails after the items of the set are removed."""


def minimise(items: Sequence[Item], fails: Fails[Item], at_once: int) -> frozenset[Item]:
    """Returns a maximal set of items that can be removed while the test still fails.

    If any further item is removed, the test passes. The test must fail if no item is removed. One call of ``fails``
    tests up to ``at_once`` sets of removed items.
    """
    removed: frozenset[Item] = frozenset()
    while found := _removable(items, removed, fails, at_once):
        unions = [*accumulate(found, lambda one, other: one | other)][:at_once]
        failing = fails([removed | union for union in unions[1:]])
        removable = [unions[0], *(union for union, is_failing in zip(unions[1:], failing, strict=True) if is_failing)]
        removed |= max(removable, key=len)
    return removed


def _removable(
    items: Sequence[Item], removed: frozenset[Item], fails: Fails[Item], at_once: int
) -> list[frozenset[Item]]:  # fmt: skip
    """Returns disjoint chunks of items, the largest first, or an empty list if no chunk can be removed.

    The test still fails if any one of these chunks is removed in addition to ``removed``.
    """
    left = [item for item in items if item not in removed]
    chunks = [*_chunks(left)]
    for first in range(0, len(chunks), at_once):
        tried = chunks[first : first + at_once]
        failing = fails([removed | chunk for chunk in tried])
        found: list[frozenset[Item]] = []
        for chunk, is_failing in zip(tried, failing, strict=True):
            if is_failing and not any(chunk & other for other in found):
                found.append(chunk)
        if found:
            return found
    return []


def _chunks(items: Sequence[Item]) -> Iterator[frozenset[Item]]:
    """Yields the set of all items, then the halves, quarters and smaller parts, and finally each single item."""
    size = len(items)
    while size:
        yield from (frozenset(items[first : first + size]) for first in range(0, len(items), size))
        size = 0 if size == 1 else (size + 1) // 2


AT_ONCE = 64
"""The maximum number of candidate scenarios in a job."""


@dataclass(frozen=True)
class Shrunk:
    """The result of shrinking a scenario by removing its atoms: faults, calls and nodes (`hunting.atoms`).

    Attributes:
        parts: The smallest scenario found that breaks the guarantee.
        guarantee: The name of the guarantee.
        is_excused: Whether an excused violation counts as breaking the guarantee.
        before: The number of atoms of each kind (`KINDS`) in the original scenario.
        after: The number of atoms of each kind in ``parts``.
        n_played: The number of executed candidate scenarios.
    """

    parts: Parts
    guarantee: str
    is_excused: bool
    before: Mapping[str, int]
    after: Mapping[str, int]
    n_played: int

    @property
    def sizes(self) -> str:
        """The sizes of ``parts`` and of the original scenario as a phrase, e.g. ``1 of 3 faults, 2 of 9 calls``."""
        return ", ".join(f"{self.after[kind]:,} of {plural(n, kind)}" for kind, n in self.before.items() if n)


def shrink(
    root: Root, run_id: int, session: Session, guarantee: str | None = None, say: Callable[[str], None] = lambda _: None
) -> Shrunk:
    """Returns a minimal scenario that breaks a guarantee.

    If any single fault, call or node is removed, the scenario no longer breaks the guarantee.

    Args:
        root: The path of an audited store.
        run_id: The id of the run.
        session: The engine that executes the candidates.
        guarantee: The guarantee; None for the first guarantee that the run broke.
        say: Receives a line for each job.

    Raises:
        StoreError: The path is not a store, or the files of the scenario have changed.
        QueryError: The store has no such run, or the run did not break the guarantee.
    """
    name, is_excused = _broken(StoreReader(session, root.absolute()), run_id, guarantee)
    found = minimal(extracted(root, run_id), name, session, is_excused=is_excused, say=say)
    if found is None:
        raise QueryError(f"run {run_id} does not break {name} when it is executed alone: the program has changed")
    return found


def minimal(
    given: Parts, name: str, session: Session, *, is_excused: bool = False, say: Callable[[str], None] = lambda _: None
) -> Shrunk | None:  # fmt: skip
    """Returns the smallest scenario found that breaks guarantee ``name``, or None if ``given`` does not break it.

    ``given`` is a scenario of one run, as returned by `listed_scenario`. Unless ``is_excused`` is true, excused
    violations are ignored.
    """
    parts = with_streams(given)
    player = _Player(parts, name, is_excused, session, say)
    if player.fails([frozenset()]) != [True]:
        return None
    atoms = {kind: atoms_of(parts, kind) for kind in KINDS}
    removed: frozenset[Atom] = frozenset()
    for kind in KINDS:
        removed |= _removed(atoms[kind], removed, player)
    # An atom that was necessary can become removable after atoms of other kinds were removed.
    removed |= _removed([atom for of_kind in atoms.values() for atom in of_kind], removed, player)
    smallest = without(parts, removed) or parts
    counts = [{kind: len(atoms_of(one, kind)) for kind in KINDS} for one in (parts, smallest)]
    named = {**smallest, "name": f"{parts['name']}_shrunk"}
    return Shrunk(named, name, is_excused, counts[0], counts[1], player.n_played)


def _removed(atoms: Sequence[Atom], before: frozenset[Atom], player: _Player) -> frozenset[Atom]:
    """Returns a maximal set of ``atoms`` that can be removed in addition to the atoms in ``before``."""
    left = [atom for atom in atoms if atom not in before]
    return minimise(left, lambda candidates: player.fails([before | one for one in candidates]), AT_ONCE)


def _broken(reader: StoreReader, run_id: int, guarantee: str | None) -> tuple[str, bool]:
    """Returns a guarantee that the run breaks, and whether all violations of this guarantee in the run are excused.

    If ``guarantee`` is ``None``, the result is the guarantee of the first violation in the run. A violation that is not
    excused precedes all excused violations.
    """
    rows = reader.sql(
        f"select guarantee, excused, min(round) as round from violation where run_id = {run_id} "  # noqa: S608 - a number
        "group by guarantee, excused order by excused, round nulls last, guarantee"
    ).collect()
    broken = {row.guarantee: row.excused for row in reversed(rows)}
    if not rows:
        check_run(reader, run_id)
        [row] = reader.sql("select min(run_id) as first from violation").collect()
        hint = "nor did any other" if row.first is None else f"run {row.first} did"
        raise QueryError(f"run {run_id} broke no guarantee, {hint}; the audit of a finished store tells which do")
    if guarantee is not None and guarantee not in broken:
        known = ", ".join(broken)
        raise QueryError(f"run {run_id} did not break {guarantee!r};{nearest(guarantee, [*broken])} it broke {known}")
    name = guarantee or rows[0].guarantee
    return name, broken[name]


class _Player:
    def __init__(
        self, parts: Parts, guarantee: str, is_excused: bool, session: Session, say: Callable[[str], None]
    ) -> None:
        self._parts, self._guarantee, self._is_excused = parts, guarantee, is_excused
        self._session, self._say = session, say
        self._known: dict[str | None, bool] = {None: False}
        self.n_played = 0

    def fails(self, removed: Sequence[frozenset[Atom]]) -> list[bool]:
        """Returns, for each set in ``removed``, whether the scenario breaks the guarantee without the atoms of the set.

        The result for a set is False if the scenario without its atoms is invalid.
        """
        candidates = [without(self._parts, gone) for gone in removed]
        texts = [None if parts is None else json.dumps(parts) for parts in candidates]
        runs = {
            text: runnable(parts)
            for text, parts in zip(texts, candidates, strict=True)
            if text not in self._known and parts is not None
        }
        playable = [(text, run) for text, run in runs.items() if run is not None]
        broken = self._play([run for _, run in playable])
        self._known |= dict.fromkeys(runs, False)
        self._known |= {text: place in broken for place, (text, _) in enumerate(playable)}
        if playable:
            self.n_played += len(playable)
            failing = [parts for text, parts in zip(texts, candidates, strict=True) if parts and self._known[text]]
            sizes = [{kind: len(atoms_of(parts, kind)) for kind in KINDS} for parts in failing]
            smallest = min(sizes, key=lambda size: sum(size.values()), default={})
            size = ", ".join(plural(number, kind) for kind, number in smallest.items() if number)
            found = f"the smallest that breaks it has {size}" if sizes else "no candidate breaks it"
            self._say(f"{plural(len(playable), 'candidate')} played: {found}")
        return [self._known[text] for text in texts]

    def _play(self, runs: Sequence[Playable]) -> set[int]:
        """Executes runs as one job, and returns the indexes of the runs that break the guarantee.

        If a handler raises an exception in a run, this run does not break the guarantee, and the remaining runs are
        executed again.
        """
        left = dict(enumerate(runs))
        while left:
            indexes = [*left]
            try:
                return {indexes[run_id] for run_id in self._play_job([*left.values()])}
            except NodeProgramError as error:
                del left[indexes[failed_run(error, len(left))]]
        return set()

    def _play_job(self, runs: Sequence[Playable]) -> set[int]:
        protocol = protocol_named(runs[0].run.scenario.protocol.name)
        with played(runs, self._session) as (reader, session):
            found = {row.run_id for row in found_by(self._guarantee, reader, session, protocol)}
            is_never_excused = any(one.is_unconditional for one in audits_of(protocol) if one.name == self._guarantee)
            if self._is_excused or is_never_excused:
                return found
            return found - {run.run_id for run in beyond_runs(reader, protocol)}


def failed_run(error: NodeProgramError, n_runs: int) -> int:
    """Returns the id of the run in which a handler raised an exception; raises ``error`` if it names none of the runs.

    The runs have the ids from 0 to ``n_runs`` - 1.
    """
    named = _RUN.search(str(error))
    if named is None or int(named[1]) >= n_runs:
        raise error
    return int(named[1])


class Playable(NamedTuple):
    """A run with its overlay, workload and faults."""

    run: RunConfig
    built: Mapped


@contextmanager
def played(playable: Sequence[Playable], session: Session) -> Iterator[tuple[StoreReader, Session]]:
    """Executes runs of one protocol as one job, and opens a reader of their temporary store.

    The id of a run in the store is its index in ``playable``.

    Yields:
        A reader of the store, and the session that executes its queries (see `fast_reader`).
    """
    runs = [replace(one.run, run_id=index) for index, one in enumerate(playable)]
    with TemporaryDirectory(dir=session.scratch) as folder:
        store = Store(Path(folder), session)
        with players(runs, session.engine, "auto"):
            inputs = build_inputs(runs, None, built=[one.built for one in playable])
        execute(Experiment(runs, inputs, commit_every=None), session, store, lambda _: None)
        with fast_reader(store.root, session) as (reader, asked, _):
            yield reader, asked


def runnable(parts: Parts, before: Playable | None = None) -> Playable | None:
    """Builds the run of scenario ``parts``, or returns None if the scenario is invalid.

    Args:
        parts: A scenario. If it has several seeds, the result is the run with the first seed.
        before: A run whose scenario differs from ``parts`` only in faults and seed. The result reuses the overlay and
            the workload of this run. None builds all inputs.
    """
    try:
        if before is None:
            scenario = Scenario.model_validate(parts)
        else:
            scenario = before.run.scenario.varied(parts.get("faults", ()), parts["runs"])
        run = RunConfig(0, scenario.runs.all_seeds()[0], scenario, {})
        return Playable(run, build_run(run, None, None if before is None else before.built))
    except (ValidationError, InputError):
        return None


def labelled_runs(runs: Sequence[RunConfig], beside: Path | None, n_seeds: int) -> list[tuple[str, Parts, Playable]]:
    """Builds the runs of a scenario. Returns a label, a scenario that lists all inputs, and the built run of each.

    Args:
        runs: The runs.
        beside: The folder of the scenario file.
        n_seeds: The number of additional runs, which differ from the first run only in their seed.

    Raises:
        QueryError: The first run is invalid if it is executed alone.
    """
    listed = [(f"run {run.run_id}", listed_scenario(run, beside)) for run in runs]
    (label, parts), *others = listed
    first = runnable(parts)
    if first is None:
        raise QueryError("the first run of the scenario is rejected when it is executed alone; validate it")
    seeds = range(first.run.seed + 1, first.run.seed + 1 + n_seeds)
    of_seeds = [(f"seed {seed}", {**parts, "runs": {"seeds": [seed]}}) for seed in seeds]
    built = [(name, one, runnable(one)) for name, one in others]
    built += [(name, one, runnable(one, first)) for name, one in of_seeds]
    playable = [(name, one, run) for name, one, run in built if run is not None]
    return [(label if others else "", parts, first), *playable]
