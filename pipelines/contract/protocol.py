"""What a protocol declares of itself: a node program, and what the project needs to run, audit and compare it.

A declaration loads no PySpark: functions that read a store name its types in annotations only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import create_model

from pipelines.contract.audit import Audit, Reader, Relation
from pipelines.contract.forms import DATAFLOW_FAULTS, Form
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Strict
from pipelines.errors import Problem, ProtocolError
from udfs.nodes.program import NodeProgram, Plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


SETTINGS_JSON = "settings_json"
"""The column of a run's settings that has all of them as JSON."""
NO_RUN = "select run_id, cast(null as bigint) as round, '' as reason from run where run_id < 0"
"""A query for runs that finds none: a bound that no run goes beyond."""
Check = Callable[[Any, Overlay, Workload, Faults], Iterator[Problem]]
"""Yields what a protocol with these settings cannot run with, each problem at its place in the scenario."""
Bound = str | Callable[[Reader], "DataFrame"]


@dataclass(frozen=True)
class ComputedView:
    """A view that a function computes from a store, where SQL alone does not say it.

    Attributes:
        question: The question that it answers, and then what a row is.
        make: Returns its rows.
        columns: What its columns mean, by name; names that all views share (`sql.views.COMMON`) need no entry.
    """

    question: str
    make: Callable[[Reader], DataFrame]
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DerivedTable:
    """A table that follows from the rows of a program's declaration.

    Attributes:
        name: Its name, without the prefix ``state_``.
        record: The record that declares its columns beside ``run_id`` and ``node_id`` (`udfs.nodes.records`).
        of: The declaration.
        make: Derives its rows from those of the declaration's table.
    """

    name: str
    record: type
    of: str
    make: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Protocol:
    """A protocol; a small one states its name, summary and program.

    Attributes:
        name: The name in scenario files.
        summary: One line for ``roundtable list``.
        program: The class of its nodes.
        settings: The model of its part of a scenario; has a field ``name: Literal[name]`` and defaults for the rest. By
            default it has the name only.
        audits: The guarantees that it gives beside the general ones.
        audit_relations: What several of these audits read beside the store, by name; one may read those before it.
        views: The package whose SQL files are views of this protocol's stores; None: there are none.
        bound: The runs whose faults went beyond what it promises to bear: ``run_id``, the first ``round`` in which they
            did, and a ``reason`` in words; SQL over the history, or a function of a store that returns such rows. The
            violations of these runs are excused, so a bound follows from what the runs were given, never from what
            nodes report. By default a protocol bears everything.
        assumes: What it assumes of its network; a run whose link faults break that is beyond its bound, too.
        steps: The module whose ``STEPS`` are dataflow steps with the rows of the program
            (`contract.round.DataflowForm`). None: it has the form ``program`` only.
        steps_bear_faults: Whether its steps play runs with crashes and joins, too; otherwise its program does.
        undecided: The runs that ended before what they are held to could be told, though nothing but maintenance was in
            flight; in the form of a bound. By default there are none.
        waits: By declaration of the program: SQL over the history for the publications that still wait in its table:
            ``run_id, node_id, source, source_seq`` and a ``reason``, what they wait for, in words. Stories of
            publications tell it (`why`).
        waited: SQL over the history for the publications that waited at a node and left it later: ``run_id, node_id,
            source, source_seq, since_round, until_round``, a ``reason`` in words, and, where a crash made the wait
            longer, ``crashed``, the node, and ``crash_round``. Stories of late deliveries tell it (`why`). None: none.
        made_views: Views of its stores that functions compute, by name.
        shown: More tables that follow from declarations of the program.
        scenarios: The package whose YAML files are scenarios of it; None: there are none.
        check: What it demands of a run's overlay, workload and faults beside the general rules; None: nothing.
        needs_tree: Whether it runs on trees only.
        confirms: Whether it confirms calls; otherwise a call is final when it is issued.
        confirms_delivery: Whether a publication is confirmed only when all who are to have it do; otherwise its
            confirmation says less, for example that it is stored.
        keeps_source_order: Whether a subscriber gets all publications of a source in their order.
        orders: The orders of delivery that it keeps where a publication asks for one (``guarantee``).
        builds_overlay: Whether its joins make the whole overlay (``overlay.start: joining``).
        makes_overlay: Whether it links nodes itself, so that the scenario lists nodes only (``overlay.nodes``).
        edges: The view of the edges that its nodes hold, where it makes the overlay: reports draw them, and lay nodes
            out by those that are no shortcuts. Its columns: ``run_id, node_id, held_node_id, is_shortcut, round``, and
            ``until_round``, null: to the end. None: no such view.
        servers: What the overlay's servers are called in table ``node``; None: its overlays have none.
        calls: The kinds of calls that it takes beside subscriptions, publications and `workload.joins`.
        draws: Whether its nodes draw, so that runs of the same inputs depend on the seed.
        maintenance: The kinds of messages that nodes send for ever, though nothing is to be done: a run that ends with
            only such messages in flight is decided.
        application: The kinds of messages that carry publications, for comparisons with other protocols.
        acknowledgement: The kinds that say what has come, or was stored or processed.
        recovery: The kinds that bring or ask for what was lost, and that bring nodes back; all others are control.
        variants: Settings that are worth a try where protocols are compared on a scenario, each without the name.
    """

    name: str
    summary: str
    program: type[NodeProgram]
    settings: type[Strict] = Strict
    audits: Sequence[Audit] = ()
    audit_relations: Mapping[str, Relation] = field(default_factory=dict)
    views: str | None = None
    bound: Bound = NO_RUN
    assumes: frozenset[Assumption] = frozenset()
    steps: str | None = None
    steps_bear_faults: bool = True
    undecided: Bound = NO_RUN
    waits: Mapping[str, str] = field(default_factory=dict)
    waited: str | None = None
    made_views: Mapping[str, ComputedView] = field(default_factory=dict)
    shown: Sequence[DerivedTable] = ()
    scenarios: str | None = None
    check: Check | None = None
    needs_tree: bool = False
    confirms: bool = False
    confirms_delivery: bool = True
    keeps_source_order: bool = False
    orders: tuple[str, ...] = ()
    builds_overlay: bool = False
    makes_overlay: bool = False
    edges: str | None = None
    servers: str | None = None
    calls: tuple[str, ...] = ()
    draws: bool = True
    maintenance: tuple[str, ...] = ()
    application: tuple[str, ...] = ()
    acknowledgement: tuple[str, ...] = ()
    recovery: tuple[str, ...] = ()
    variants: tuple[Mapping[str, Any], ...] = ({},)
    kinds: tuple[str, ...] = field(init=False)
    """The kinds of messages that its nodes send, reports of their failure detectors among them."""

    def __post_init__(self) -> None:
        """Reads the program, and makes the settings if there are none.

        Raises:
            ProtocolError: The program or the classes of messages are wrong.
        """
        try:
            object.__setattr__(self, "kinds", tuple(Plan.of(self.program).kinds))
        except TypeError as error:
            raise ProtocolError(self.name, [str(error)]) from error
        if self.settings is Strict:
            object.__setattr__(self, "settings", _settings(self.name))
        classed = [*self.application, *self.acknowledgement, *self.recovery]
        unknown = sorted({*classed} - {*self.kinds})
        if unknown or len({*classed}) < len(classed):
            wrong = f"{unknown[0]!r} is none of its kinds" if unknown else "a kind stands in two of them"
            allowed = "allowed: each kind of message in one of application, acknowledgement and recovery, or in none"
            raise ProtocolError(self.name, [f"{wrong}; {allowed}"])

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that it has, the one that `auto` takes for small runs first."""
        return ("program",) if self.steps is None else ("program", "dataflow")

    def refused_faults(self, faults: Sequence[str]) -> list[str]:
        """Returns those of the kinds of faults (`Inputs.faults`) that its dataflow steps do not play."""
        return [one for one in faults if not (self.steps_bear_faults and one in DATAFLOW_FAULTS)]


def _settings(name: str) -> type[Strict]:
    """Returns the settings of a protocol that has the name only."""
    fields: dict[str, Any] = {"name": (Literal[name], name)}
    title = f"{name.title().replace('_', '')}Settings"
    return create_model(title, __base__=Strict, __doc__=f"Settings of protocol ``{name}``: none.", **fields)


Assumption = Literal["no_loss", "no_duplicates", "order"]


def _since_fault(kind: str, reason: str) -> str:
    return f"""
select e.run_id, min(m.sent_round) as round, '{reason}' as reason
from fault_event e
join sent_message m on m.run_id = e.run_id and m.src <> m.dst and m.sent_round >= e.round
where e.kind = '{kind}'
group by e.run_id
"""  # noqa: S608 - built of constants


ASSUMPTIONS: Mapping[Assumption, str] = {
    "no_loss": """
with fault as (
  select run_id, min(round) as first_round
  from fault_event
  where kind not in ('crash', 'recovery', 'pause', 'pause_end')
  group by run_id
)
select m.run_id, min(m.sent_round) as round, concat(count(1), ' messages lost on links') as reason
from sent_message m
join run r on r.run_id = m.run_id
left join fault f on f.run_id = m.run_id
where m.fate = 'lost_link' and (m.sent_round >= f.first_round
  or cast(get_json_object(r.parameters, "$['protocol.out_of_band_loss']") as double) > 0)
group by m.run_id
""",
    "no_duplicates": _since_fault("duplicate", "links may bring messages twice"),
    "order": _since_fault("reorder", "messages may overtake others on links"),
}
"""SQL for the runs that break it: ``run_id``, the first ``round`` in which they do, and a ``reason`` in words.

- ``no_loss``: a message on a link arrives, unless its receiver is down. The first lost message breaks it, if links of
  the scenario lose any by a fault or a setting: a protocol that drops messages and reports them as lost is not excused.
- ``no_duplicates``: a message arrives once. The first message that is sent once a fault ``duplicate`` has begun breaks
  it.
- ``order``: of two messages with equal ends and latency the earlier one arrives first. The first message that is sent
  once a fault ``reorder`` has begun breaks it.
"""


def refuse_joins(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields a problem for each join of the workload: the `check` of protocols whose overlay is fixed."""
    for index in range(len(workload.join)):
        message = f"nodes of protocol {settings.name} are linked from the start; leave joins out"
        yield Problem(("workload", "joins", index), message)
