"""The model of a scenario file: one experiment with its seeds and its grid.

The model checks that the nodes and links of calls and faults exist, and that no round is after the horizon.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import networkx as nx
from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from pipelines.contract.forms import AskedForm
from pipelines.contract.settings import (
    BY_FORM,
    MAX_SEED,
    Branches,
    Count,
    Number,
    Positive,
    Seed,
    Strict,
    repetition_problems,
)
from pipelines.engines.names import AskedEngine, current_name
from pipelines.errors import KeyPath, Problem, listed, nearest, raise_problems
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.faults import BreakGenerator, Crash, Fault, FaultGenerator, LinkFaultSpec, Partition
from pipelines.scenario.overlay import MAX_SEARCHED, OverlaySpec
from pipelines.scenario.times import CALLS, TimeSpec, time_problems, with_rounds
from pipelines.scenario.workload import Join, WorkloadSpec

MAX_RUNS = 1_000_000
Call: TypeAlias = "tuple[KeyPath, Strict]"
_NODE_FIELDS = frozenset({"at", "node", "to", "peer", "links", "groups", "link", "by", "sender", "receiver"})
_Values = Annotated[list[Any], Field(min_length=1)]


class SeedRange(Strict):
    """Consecutive seeds."""

    count: Annotated[Count, Field(ge=1, le=MAX_RUNS, description="number of seeds")]
    first: Seed = Field(0, alias="from", description="the first seed")

    def _problems(self) -> Iterator[Problem]:
        if (last := self.first + self.count - 1) > MAX_SEED:
            yield Problem(("from",), f"the last seed is {last}; allowed: up to {MAX_SEED}")


class ValueRange(Strict):
    """Equidistant numbers: `from`, `from` + `step`, and so on, up to `to`."""

    low: Annotated[int, Field(strict=True)] | Number = Field(alias="from", description="the first number")
    high: Annotated[int, Field(strict=True)] | Number = Field(
        alias="to",
        description="upper limit of the numbers; it is included if a whole number of steps leads to it",
    )
    step: Annotated[int, Field(ge=1, strict=True)] | Positive = Field(
        1, description="difference between consecutive numbers"
    )

    def _problems(self) -> Iterator[Problem]:
        if self.low > self.high:
            message = f"the range goes from {self.low} to {self.high}; allowed: from <= to, or a descending list"
            yield Problem(("to",), message)
        elif (self.high - self.low) / self.step >= MAX_RUNS:
            yield Problem(("step",), f"the range has more than {MAX_RUNS} values; take a larger step")

    def values(self) -> list[int | float]:
        """Returns the numbers: ints if `low`, `high` and `step` are ints, else floats with 12 significant digits."""
        number = math.floor((self.high - self.low) / self.step * (1 + 1e-12)) + 1
        exact = [self.low + place * self.step for place in range(number)]
        if all(isinstance(given, int) for given in (self.low, self.high, self.step)):
            return exact
        return [float(f"{value:.12g}") for value in exact]


class RunsSpec(Strict):
    """The runs of an experiment: every combination of the grid with every seed."""

    seeds: Annotated[Annotated[list[Seed], Field(min_length=1)] | SeedRange, BY_FORM] = Field(
        default_factory=lambda: [0], description="one run for each seed: a list, or {count: 1000}"
    )
    grid: dict[str, Annotated[_Values | ValueRange, BY_FORM]] = Field(
        default_factory=dict,
        description="mapping of the path of a key, e.g. protocol.delta, to the values of the key: a list, or {from:"
        " 0, to: 4}",
    )

    def _problems(self) -> Iterator[Problem]:
        yield from repetition_problems(("seeds",), self.seeds) if isinstance(self.seeds, list) else ()
        for path, values in self.grid.items():
            if isinstance(values, list):
                yield from repetition_problems(("grid", path), values)

    def all_seeds(self) -> Sequence[int]:
        """Returns the seeds. Each combination of the grid runs once with each seed."""
        if isinstance(self.seeds, SeedRange):
            return range(self.seeds.first, self.seeds.first + self.seeds.count)
        return self.seeds


if TYPE_CHECKING:
    ProtocolSettings = Any
else:
    ProtocolSettings = Annotated[reduce(or_, (spec.settings for spec in PROTOCOLS.values())), Branches("name")]


class Scenario(Strict):
    """One experiment: a protocol on an overlay with a workload and faults."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)] = Field(
        description="at most 100 letters, digits, _ . and -, the first a letter or a digit; it names the scenario and "
        "the folder of its store"
    )
    protocol: ProtocolSettings = Field(description="the protocol's name and settings")
    overlay: OverlaySpec = Field(description="nodes, links and latencies")
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec, description="the calls of applications, by round")
    faults: list[Fault] = Field(default_factory=list, description="faults of nodes and links, with their rounds")
    time: TimeSpec = Field(default_factory=TimeSpec, description="length of a run, and duration of a round")
    runs: RunsSpec = Field(
        default_factory=RunsSpec, description="the seeds, and the values of keys that vary between runs"
    )
    engine: Annotated[AskedEngine, BeforeValidator(current_name)] = Field(
        "auto", description="the engine that executes the rounds; --engine and ROUNDTABLE_ENGINE override it"
    )
    form: AskedForm = Field(
        "auto",
        description="form of the protocol: program (one program per node) or dataflow (DataFrame steps over all "
        "nodes); --form and ROUNDTABLE_FORM override it",
    )

    @model_validator(mode="before")
    @classmethod
    def _in_rounds(cls, data: Any) -> Any:  # noqa: ANN401 - any value of the file
        return with_rounds(data)

    def varied(self, faults: Sequence[Mapping[str, Any]], runs: Mapping[str, Any]) -> Self:
        """Returns a copy of this scenario with other faults, whose times are rounds, and other runs.

        Only these two parts are validated.

        Raises:
            ValidationError: A fault or ``runs`` is invalid.
            InputError: The faults contradict each other, the overlay or the horizon.
        """
        found = _FAULTS.validate_python(faults)
        raise_problems(self._problems_of(WorkloadSpec(), found))
        return self.model_copy(update={"faults": found, "runs": RunsSpec.model_validate(runs)})

    def _problems(self) -> Iterator[Problem]:
        return self._problems_of(self.workload, self.faults)

    def _problems_of(self, workload: WorkloadSpec, faults: Sequence[Fault]) -> Iterator[Problem]:
        yield from time_problems(self.time, calls(workload, faults))
        yield from call_problems(self.overlay, self.time.rounds, calls(workload, faults))


_FAULTS = TypeAdapter(list[Fault])


def calls(workload: WorkloadSpec, faults: Sequence[Fault]) -> Iterator[Call]:
    """Yields the elements of `workload` and `faults`, each with its path in the scenario.

    An element is a listed call, the specification of a generator or a file of calls, or a fault.
    """
    for name in CALLS:
        part = getattr(workload, name)
        path: KeyPath = ("workload", name)
        if isinstance(part, list):
            yield from (((*path, index), item) for index, item in enumerate(part))
        else:
            yield path, part
    yield from ((("faults", index), fault) for index, fault in enumerate(faults))


def call_problems(overlay: OverlaySpec | None, horizon: int | None, parts: Iterable[Call]) -> Iterator[Problem]:
    """Yields a problem for each unknown node, late round, missing link, repeated join and overlapping crash.

    Node names and links are checked only if the overlay lists its links, servers and clients. A round is late if it is
    after `horizon`; if `horizon` is `None`, rounds are not checked.
    """
    parts = list(parts)
    if overlay is not None and (links := _listed_links(overlay)):
        yield from name_problems(parts, sorted({name for link in links for name in link}), links)
    joined = dict[str, KeyPath]()
    crashes: dict[str, list[tuple[KeyPath, Crash]]] = defaultdict(list)
    for path, part in parts:
        if horizon is not None:
            yield from _late(path, part, horizon)
        if isinstance(part, Join):
            if part.node == part.to:
                message = f"{part.node!r} cannot join at itself; allowed: a neighbour of {part.node!r}"
                yield Problem((*path, "to"), message)
            if joined.setdefault(part.node, path) != path:
                yield Problem((*path, "node"), f"{part.node!r} joins twice; allowed: one join for each node")
        elif isinstance(part, Crash):
            crashes[part.node].append((path, part))
    for of_node in crashes.values():
        yield from _crash_problems(of_node)


def name_problems(
    parts: Iterable[Call], names: Sequence[str], links: Iterable[tuple[str, str]]
) -> Iterator[Problem]:  # fmt: skip
    """Yields a problem for each unknown node and missing link in `parts`, and for each partition that splits nothing.

    `names` and `links` are those of the overlay. The links of a part are checked only if it has no unknown node.
    """
    known = frozenset(names)

    graph = cache(lambda: nx.Graph(links))  # few parts need links
    for path, part in parts:
        if unknown := [(place, name) for place, name in _nodes(path, part) if name not in known]:
            yield from (Problem(place, unknown_node(name, names)) for place, name in unknown)
            continue
        for place, a, b in _linked(path, part):
            if a != b and not graph().has_edge(a, b):
                near = listed([name for name in names if graph().has_edge(a, name)]) or "nobody"
                cure = ", or add the link to overlay.links" if isinstance(part, Join) else ""
                yield Problem(place, f"no link joins {a!r} and {b!r}; linked with {a!r}: {near}{cure}")
        if isinstance(part, Partition) and len(part.groups or ()) == 1 and known <= {*(part.groups or [[]])[0]}:
            yield Problem((*path, "groups"), "the group holds all nodes, so nothing is split; leave some of them out")


def unknown_node(name: str, names: Sequence[str]) -> str:
    """Returns the error message for `name`, which is not in `names`, the nodes of the overlay."""
    return f"the overlay has no node {name!r};{nearest(name, names[:MAX_SEARCHED])} allowed: {listed(names)}"


def _listed_links(overlay: OverlaySpec) -> list[tuple[str, str]]:
    # The names of nodes in overlays from files and generators are not known here; `pipelines.inputs` checks them.
    if overlay.links is None or not isinstance(overlay.clients, list) or not isinstance(overlay.servers, list):
        return []
    brokers = [(link[0], link[1]) for link in overlay.links]
    return brokers + [(one.name, one.at) for one in (*overlay.servers, *overlay.clients)]


def _nodes(path: KeyPath, part: Strict) -> Iterator[tuple[KeyPath, str]]:
    for key, field in _node_keys(type(part)):
        yield from _names((*path, key), getattr(part, field))
    for source in ("file", "generate"):
        if (inner := getattr(part, source, None)) is not None:
            for key in ("nodes", "spare", "links"):
                if isinstance(value := getattr(inner, key, None), list):
                    yield from _names((*path, source, key), value)


@cache
def _node_keys(model: type[Strict]) -> list[tuple[str, str]]:
    return [(of.alias or field, field) for field, of in model.model_fields.items() if field in _NODE_FIELDS]


def _names(path: KeyPath, value: object) -> Iterator[tuple[KeyPath, str]]:
    """Yields each string in `value` (a string or nested lists of strings), and the path of the string."""
    if isinstance(value, str):
        yield path, value
    for index, item in enumerate(value if isinstance(value, (list, tuple)) else ()):
        yield from _names((*path, index), item)


def _linked(path: KeyPath, part: Strict) -> Iterator[tuple[KeyPath, str, str]]:
    """Yields the two ends of each link that `part` needs, and the path of the link."""
    if isinstance(part, Join):
        yield (*path, "to"), part.node, part.to
    elif isinstance(part, LinkFaultSpec):
        yield from (((*path, "links", index), *link) for index, link in enumerate(part.links or ()))
    elif isinstance(part, FaultGenerator) and isinstance(part.generate, BreakGenerator):
        place = (*path, "generate", "links")
        yield from (((*place, index), *link) for index, link in enumerate(part.generate.links or ()))


def _late(path: KeyPath, part: Strict, horizon: int) -> Iterator[Problem]:
    file, generator = getattr(part, "file", None), getattr(part, "generate", None)
    found = [((*keys, key), getattr(of, key, None)) for of, keys in ((part, path), (file, (*path, "file")))
             for key in ("round", "until")]  # fmt: skip
    if rounds := getattr(generator, "rounds", None):
        found.append(((*path, "generate", "rounds", 1), rounds[1]))
    for place, round_ in found:
        if isinstance(round_, int) and round_ > horizon:
            name = next(step for step in reversed(place) if isinstance(step, str))
            message = f"{name}: {round_} is after the horizon; allowed: 0 to {horizon}, or a larger time.rounds"
            yield Problem(place, message)


def _crash_problems(of_node: list[tuple[KeyPath, Crash]]) -> Iterator[Problem]:
    ordered = sorted(of_node, key=lambda entry: entry[1].round)
    for (before, earlier), (path, crash) in pairwise(ordered):
        if earlier.until is None:
            cure = f"stays down; give number {int(before[-1]) + 1} of the list an until: before {crash.round}"
        elif crash.round <= earlier.until:
            cure = f"recovers in round {earlier.until}; allowed: {earlier.until + 1} or later"
        else:
            continue
        message = f"{crash.node!r} cannot crash in round {crash.round}: it is down from round {earlier.round} on"
        yield Problem((*path, "round"), f"{message} by number {int(before[-1]) + 1} of the list, and {cure}")
