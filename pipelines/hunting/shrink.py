"""Shrinks a run that breaks a guarantee; the result is a small scenario that breaks this guarantee.

A job executes and audits many candidate scenarios. Delta debugging removes atoms until each remaining atom is necessary
(Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering
28 (2), 2002). A step tests, for chunks of atoms of all sizes, whether the chunk can be removed. It then tests unions of
the removable chunks, and removes the largest union that can be removed.

The removable parts of a scenario are called atoms: faults, calls and nodes. A removed node is contracted into its
nearest neighbour: each other neighbour of the removed node gets a link to the nearest neighbour. The latency of this
link is the sum of the latencies of the two links that it replaces. So a connected overlay stays connected, and a tree
stays a tree. The calls and faults of a removed node are removed, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from pipelines.audits.run import audits_of, beyond_runs, found_by
from pipelines.engines.session import Session
from pipelines.errors import InputError, NodeProgramError, QueryError, nearest, plural
from pipelines.experiment.build import build_inputs, build_run
from pipelines.experiment.listed import Parts, extracted, link_latencies, listed_scenario
from pipelines.experiment.mapping import Mapped
from pipelines.protocols import protocol_named
from pipelines.rounds.blocks import players
from pipelines.rounds.execute import Experiment, execute
from pipelines.scenario.load import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.sql.differences import check_run
from pipelines.sql.query import StoreReader, fast_reader
from pipelines.store.roots import Root
from pipelines.store.store import Store

_RUN = re.compile(r"\brun (\d+)\b")
_Run = TypeVar("_Run")
_Answer = TypeVar("_Answer")
Item = TypeVar("Item", bound=Hashable)
Fails = Callable[[Sequence[frozenset[Item]]], Sequence[bool]]
"""A function that returns, for each set of items, whether the test fails after the items of the set are removed."""
_CALLS = {"publication": "publications", "subscription": "subscriptions", "join": "joins", "call": "calls"}
_ATTACHED = ("servers", "clients")
KINDS = ("fault", *_CALLS, "node")
"""The kinds of atoms, in the order in which shrinking removes them."""
_DRAWN = ("loss", "delay", "duplicate")


class Atom(NamedTuple):
    """A removable part of a scenario; ``key`` is the index of a fault or call in its list, or the name of a node."""

    kind: str
    key: int | str


def with_streams(parts: Parts) -> Parts:
    """Returns the scenario with a separate random stream for each fault that draws random numbers.

    With separate streams, the draws of a fault do not change when other faults are removed.
    """
    faults = [
        {**fault, "stream": fault.get("stream", place)} if fault["kind"] in _DRAWN else fault
        for place, fault in enumerate(parts.get("faults", ()))
    ]
    return {**parts, "faults": faults}


def atoms_of(parts: Parts, kind: str) -> list[Atom]:
    """Returns the atoms of a kind in the order of the scenario."""
    if kind == "node":
        return [Atom(kind, name) for name in _names(parts["overlay"])]
    rows = parts.get("faults", ()) if kind == "fault" else parts.get("workload", {}).get(_CALLS[kind], ())
    return [Atom(kind, place) for place in range(len(rows))]


def without(parts: Parts, removed: Collection[Atom]) -> Parts | None:
    """Returns scenario ``parts`` without the ``removed`` atoms, or None if the remaining overlay is invalid."""
    nodes = [str(atom.key) for atom in removed if atom.kind == "node"]
    overlay = _without_nodes(parts["overlay"], nodes)
    if overlay is None:
        return None
    gone = {kind: {atom.key for atom in removed if atom.kind == kind} for kind in KINDS}
    pairs = {frozenset(link[:2]) for link in overlay.get("links", ())}
    workload = {
        name: [
            call for place, call in enumerate(parts.get("workload", {}).get(name, ()))
            if place not in gone[kind] and _is_possible(call, nodes, pairs)
        ]
        for kind, name in _CALLS.items()
    }  # fmt: skip
    kept = [fault for place, fault in enumerate(parts.get("faults", ())) if place not in gone["fault"]]
    faults = [fitting for fault in kept if (fitting := _fitting(fault, nodes, pairs)) is not None]
    workload = {name: calls for name, calls in workload.items() if calls}
    others = {"overlay": overlay, "workload": workload, "faults": faults}
    return {name: part for name, part in {**parts, **others}.items() if part}


def _names(overlay: Mapping[str, Any]) -> list[str]:
    if "nodes" in overlay:
        return [f"{overlay['nodes'].get('prefix', 'N')}{number + 1}" for number in range(overlay["nodes"]["count"])]
    named = dict.fromkeys(name for link in overlay.get("links", ()) for name in link[:2])
    return [*overlay.get("order", named), *(one["name"] for key in _ATTACHED for one in overlay.get(key, ()))]


def _without_nodes(overlay: Parts, removed: Sequence[str]) -> Parts | None:
    if not removed:
        return overlay
    if "nodes" in overlay:  # the nodes are numbered 1 to count, so only those with the highest numbers can be removed
        names, n_left = _names(overlay), overlay["nodes"]["count"] - len(removed)
        is_end = n_left > 0 and set(names[n_left:]) == set(removed)
        return {**overlay, "nodes": {**overlay["nodes"], "count": n_left}} if is_end else None
    if "links" not in overlay or overlay.get("join_root") in removed:
        return None
    around: dict[str, dict[str, int]] = {name: {} for name in _names(overlay)}
    for a, b, *latency in overlay["links"]:
        around[a][b], around[b][a] = (latency[0], latency[-1]) if latency else (1, 1)
    attached = {key: [one for one in overlay.get(key, ()) if one["name"] not in removed] for key in _ATTACHED}
    edges = {one["name"]: one["at"] for of_key in attached.values() for one in of_key}
    for name in (name for name in sorted(removed) if around[name]):
        heir = _contracted(around, name)
        edges = {one: heir if at == name else at for one, at in edges.items()}
    place = {name: number for number, name in enumerate(around)}
    links = [
        [a, b, *link_latencies(there, around[b][a])]
        for a in around for b, there in around[a].items() if place[a] < place[b]
    ]  # fmt: skip
    if not links:
        return None
    order = [name for name in place if around[name]]
    kept: Parts = {**overlay, "links": links, "order": order}
    kept |= {key: [{**one, "at": edges[one["name"]]} for one in of_key] for key, of_key in attached.items()}
    if list(dict.fromkeys(name for link in links for name in link[:2])) == order:
        del kept["order"]
    return {name: part for name, part in kept.items() if part}


def _contracted(around: dict[str, dict[str, int]], name: str) -> str:
    """Contracts node ``name`` into its nearest neighbour, and returns the name of this neighbour."""
    there, back = around[name], {other: around[other].pop(name) for other in around[name]}
    heir = min(there, key=lambda other: there[other] + back[other])
    for other in there:
        if other != heir:
            around[heir][other] = min(back[heir] + there[other], around[heir].get(other, 2**31))
            around[other][heir] = min(back[other] + there[heir], around[other].get(heir, 2**31))
    around[name] = {}
    return heir


def _is_possible(call: Mapping[str, Any], removed: Collection[str], pairs: Collection[frozenset[str]]) -> bool:
    """Returns whether a call is possible: its nodes remain, and the link of a join is in ``pairs``."""
    if "node" in call:
        return frozenset((call["node"], call["to"])) in pairs
    return call["at"] not in removed and call.get("peer") not in removed


def _fitting(fault: Parts, removed: Collection[str], pairs: Collection[frozenset[str]]) -> Parts | None:
    """Deletes the nodes in ``removed``, and all links that are not in ``pairs``, from the lists of a fault.

    Returns None if a list becomes empty, or if another field of the fault names a removed node.
    """
    if any(fault.get(key) in removed for key in ("node", "from", "to")):
        return None
    if fault["kind"] == "replace":
        return None if {*fault["link"], *fault["by"]} & set(removed) else fault
    fault = dict(fault)
    if fault.get("links") is not None:
        fault["links"] = [link for link in fault["links"] if frozenset(link) in pairs]
    if fault.get("groups") is not None:
        groups = [[name for name in group if name not in removed] for group in fault["groups"]]
        fault["groups"] = [group for group in groups if group]
    return None if [] in (fault.get("links"), fault.get("groups")) else fault


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
    """The result of shrinking a scenario by removing its atoms: faults, calls and nodes.

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
        hint = "nor did any other" if row.first is None else f"run {row.first} did; table violation lists all"
        raise QueryError(f"run {run_id} broke no guarantee, {hint}")
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
        broken = played_whole(playable, self._play_job, lambda *_: None) or ()
        self._known |= dict.fromkeys(runs, False) | dict.fromkeys(broken, True)
        if playable:
            self.n_played += len(playable)
            failing = [parts for text, parts in zip(texts, candidates, strict=True) if parts and self._known[text]]
            sizes = [{kind: len(atoms_of(parts, kind)) for kind in KINDS} for parts in failing]
            smallest = min(sizes, key=lambda size: sum(size.values()), default={})
            size = ", ".join(plural(number, kind) for kind, number in smallest.items() if number)
            found = f"the smallest that breaks it has {size}" if sizes else "no candidate breaks it"
            self._say(f"{plural(len(playable), 'candidate')} played: {found}")
        return [self._known[text] for text in texts]

    def _play_job(self, playable: Sequence[tuple[str | None, Playable]]) -> set[str | None]:
        """Executes candidates as one job, and returns the JSON of those that break the guarantee."""
        protocol = protocol_named(playable[0][1].run.scenario.protocol.name)
        with played([run for _, run in playable], self._session) as reader:
            found = {row.run_id for row in found_by(self._guarantee, reader, protocol)}
            is_never_excused = any(one.is_unconditional for one in audits_of(protocol) if one.name == self._guarantee)
            if not (self._is_excused or is_never_excused):
                found -= {run.run_id for run in beyond_runs(reader, protocol)}
        return {playable[run_id][0] for run_id in found}


def played_whole(
    runs: Sequence[_Run], play: Callable[[Sequence[_Run]], _Answer], fail: Callable[[_Run, NodeProgramError], None]
) -> _Answer | None:
    """Returns the result of ``play`` for ``runs``, which it executes as runs 0, 1, ... of a job; None without a run.

    If a handler raises an exception in a run, ``fail`` receives this run, and ``play`` executes the remaining runs.
    """
    left = list(runs)
    while left:
        try:
            return play(left)
        except NodeProgramError as error:
            named = _RUN.search(str(error))
            if named is None or int(named[1]) >= len(left):
                raise
            fail(left.pop(int(named[1])), error)
    return None


class Playable(NamedTuple):
    """A run with its overlay, workload and faults."""

    run: RunConfig
    built: Mapped


@contextmanager
def played(playable: Sequence[Playable], session: Session) -> Iterator[StoreReader]:
    """Executes runs of one protocol as one job, and opens a reader of their temporary store (see `fast_reader`).

    The id of a run in the store is its index in ``playable``.
    """
    runs = [replace(one.run, run_id=index) for index, one in enumerate(playable)]
    with TemporaryDirectory(dir=session.scratch) as folder:
        store = Store(Path(folder), session)
        with players(runs, session.engine, "auto"):
            inputs = build_inputs(runs, None, built=[one.built for one in playable])
        execute(Experiment(runs, inputs, commit_every=None), session, store, lambda _: None)
        with fast_reader(StoreReader(session, store.root)) as reader:
            yield reader


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
