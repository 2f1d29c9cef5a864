"""The declaration of a protocol: its node program, and metadata to run, audit and compare it.

Importing a declaration does not import PySpark, which only type annotations mention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field, create_model

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
"""The name of the column with all settings of a run as JSON."""
NO_RUN = "select run_id, cast(null as bigint) as round, '' as reason from run where run_id < 0"
"""A query that returns no run: the bound of a protocol that tolerates all faults."""
Check = Callable[[Any, Overlay, Workload, Faults], Iterator[Problem]]
"""A function that yields a problem, with its location, for each part of a run's input that a protocol does not support.

Its arguments are the settings, the overlay, the workload and the faults.
"""
Bound = str | Callable[[Reader], "DataFrame"]
Ask = Callable[[str], "DataFrame"]
"""A function that answers a SQL query over the tables and views of a store."""


@dataclass(frozen=True)
class ComputedView:
    """A view of a store that a Python function computes.

    Attributes:
        question: The question that the view answers, followed by the meaning of a row.
        make: The function. It takes a function that answers SQL over the store, and returns the rows of the view.
        columns: The meaning of each column that is not in `sql.views.COMMON`.
    """

    question: str
    make: Callable[[Ask], DataFrame | pa.Table]
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DerivedTable:
    """A table that is derived from one of the tables that a node program declares.

    Attributes:
        name: The name without the prefix ``state_``.
        record: The record class (`udfs.nodes.records`) of the rows. Columns ``run_id`` and ``node_id`` are added to it.
        of: The name of the declared table.
        make: Computes the rows from the rows of the declared table.
    """

    name: str
    record: type
    of: str
    make: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Protocol:
    """A protocol. Name, summary and program are required.

    Attributes:
        name: The name in scenario files.
        summary: One line for ``roundtable list``.
        program: The node program.
        settings: The model of section ``protocol`` of a scenario: a field ``name: Literal[name]``, and other fields
            with defaults. By default it has the name only.
        audits: The guarantees of the protocol, in addition to the general guarantees.
        audit_relations: Relations that several audits read, by name; a relation may read the relations before it.
        views: The package whose SQL files are views of this protocol's stores, or None if the protocol has no views.
        bound: SQL over the history, or a function of a store. It returns the runs whose faults exceed the fault model:
            ``run_id``, the first ``round`` in which they do, and a ``reason``. Violations in these runs are excused.
            The bound must therefore depend on the input of the runs only, and not on what nodes report. By default it
            returns no run.
        assumes: The assumptions about the network. A run whose link faults break an assumption also exceeds the bound.
        steps: The module whose ``STEPS`` is the dataflow form (`contract.round.DataflowForm`). The dataflow form writes
            the same rows as the program. `steps` is ``None`` if the protocol has the form ``program`` only.
        steps_bear_faults: Whether the dataflow form supports crashes and joins.
        undecided: SQL over the history with the columns of `bound`. It returns the runs that ended too early for the
            audits, although only messages of kinds `maintenance` were in flight. By default it returns no run.
        waits: Maps the name of a declared table of the program to SQL over the history. The SQL returns the
            publications that wait in the table: ``run_id, node_id, source, source_seq, reason``. `why` prints the
            reason.
        waited: SQL over the history for publications that waited at a node: ``run_id, node_id, source, source_seq,
            since_round, until_round`` and a ``reason``. If a crash prolonged the wait, ``crashed`` is the crashed node,
            and ``crash_round`` the round of the crash. `why` prints these waits as causes of late deliveries. `waited`
            is ``None`` if nodes of the protocol do not delay publications.
        made_views: The views that Python functions compute, by name.
        shown: The tables of the store that are derived from declared tables of the program.
        scenarios: The package whose YAML files are scenarios of the protocol, or None if the protocol has no scenarios.
        check: Checks the overlay, workload and faults of a run by rules of the protocol. `check` is ``None`` if the
            general rules suffice.
        more_rows: Estimates the state of a run besides subscriptions, links and calls: the number of rows of 2 KB.
            Its arguments are the settings and the overlay. None: the nodes store little else.
        needs_tree: Whether the protocol requires a tree as overlay.
        confirms: Whether the protocol confirms calls; otherwise a call is final when it is issued.
        confirms_delivery: Whether the confirmation of a publication implies its delivery to all subscribers; otherwise
            it implies less, for example that the publication is stored.
        keeps_source_order: Whether a subscriber receives the publications of a source in the order of publishing.
        orders: The delivery orders that a publication may request (``guarantee``).
        starts_by_joins: Whether joins may build the whole overlay (``overlay.start: joining``).
        creates_links: Whether nodes create the links, so that the scenario lists nodes only (``overlay.nodes``).
        edges: The name of the view that reports draw as links of a protocol with `creates_links`: ``run_id, node_id,
            held_node_id, is_shortcut, round, until_round``. A null ``until_round`` stands for the end of the run.
            Layouts ignore shortcuts. `edges` is ``None`` if the protocol has no such view.
        servers: The role of servers in table ``node``, or None if the protocol's overlays have no servers.
        calls: The kinds of calls that the protocol accepts, in addition to subscriptions, publications and joins.
        draws: Whether nodes draw random numbers, so that rows depend on the seed.
        maintenance: The message kinds that nodes send forever. If only messages of these kinds are in flight when a run
            ends, the audits can decide the run.
        application: The message kinds that carry publications, for comparisons with other protocols.
        acknowledgement: The message kinds that acknowledge receipt, storage or processing.
        recovery: The message kinds that request or resend lost messages, or restore nodes. All other kinds are control.
        variants: The variants of the protocol that a comparison of protocols includes, each as a mapping of settings.
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
    undecided: str = NO_RUN
    waits: Mapping[str, str] = field(default_factory=dict)
    waited: str | None = None
    made_views: Mapping[str, ComputedView] = field(default_factory=dict)
    shown: Sequence[DerivedTable] = ()
    scenarios: str | None = None
    check: Check | None = None
    more_rows: Callable[[Any, Overlay], int] | None = None
    needs_tree: bool = False
    confirms: bool = False
    confirms_delivery: bool = True
    keeps_source_order: bool = False
    orders: tuple[str, ...] = ()
    starts_by_joins: bool = False
    creates_links: bool = False
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
    """The message kinds that nodes send, including failure detector reports."""

    def __post_init__(self) -> None:
        """Validates the declaration, and derives `kinds` and default settings.

        Raises:
            ProtocolError: The name, the program, the settings, a message kind or an assumption is invalid.
        """
        if not (self.name.isascii() and self.name.isidentifier()):
            reason = f"its name is {self.name!r}, and names of tables contain it"
            raise ProtocolError(self.name, [f"{reason}; allowed: letters, digits and _, not a digit first"])
        try:
            plan = Plan.of(self.program)
            object.__setattr__(self, "kinds", tuple(plan.kinds))
        except TypeError as error:
            raise ProtocolError(self.name, [str(error)]) from error
        if self.settings is Strict:
            object.__setattr__(self, "settings", _settings(self.name))
        named = self.settings.model_fields.get("name")
        if named is None or get_args(named.annotation) != (self.name,):
            field = f"name: Literal[{self.name!r}]"
            raise ProtocolError(self.name, [f"its {self.settings.__name__} has no field {field}; add it"])
        delay = self.program.detection
        if plan.is_watching and delay not in self.settings.model_fields:
            field = f"{delay}: Natural = Field(5, description=...)"
            reason = f"its program has a handler on_down, and its {self.settings.__name__} has no field {delay}"
            raise ProtocolError(self.name, [f"{reason}; add e.g. {field}, the rounds from a crash to its report"])
        classed = [*self.application, *self.acknowledgement, *self.recovery]
        unknown = sorted({*classed} - {*self.kinds})
        if unknown or len({*classed}) < len(classed):
            wrong = f"{unknown[0]!r} is none of its kinds" if unknown else "a kind occurs in two of them"
            allowed = "allowed: each kind of message in one of application, acknowledgement and recovery, or in none"
            raise ProtocolError(self.name, [f"{wrong}; {allowed}"])
        if others := sorted({*self.assumes} - {*ASSUMPTIONS}):
            raise ProtocolError(self.name, [f"assumes has {others[0]!r}; allowed: {', '.join(ASSUMPTIONS)}"])

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms of the protocol. The form that `auto` selects for small runs comes first."""
        return ("program",) if self.steps is None else ("program", "dataflow")

    @property
    def takes_joins(self) -> bool:
        """Whether nodes may join (``workload.joins``): the program has handler ``call_join``, or handles whole rounds.

        If ``join`` is among `calls`, the handler is for ``workload.calls`` only.
        """
        return "join" not in self.calls and (hasattr(self.program, "call_join") or Plan.of(self.program).is_whole)

    def refused_faults(self, faults: Sequence[str]) -> list[str]:
        """Returns the fault kinds in `faults` (items of `Inputs.faults`) that the dataflow form does not support."""
        return [one for one in faults if not (self.steps_bear_faults and one in DATAFLOW_FAULTS)]


def _settings(name: str) -> type[Strict]:
    fields: dict[str, Any] = {"name": (Literal[name], Field(name, description="selects this protocol"))}
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
  or cast(from_json(r.parameters, 'map<string,string>')['protocol.out_of_band_loss'] as double) > 0)
group by m.run_id
""",
    "no_duplicates": _since_fault("duplicate", "links may bring messages twice"),
    "order": _since_fault("reorder", "messages may overtake others on links"),
}
"""SQL for the runs that break an assumption: ``run_id``, the ``round`` of the first breach, and a ``reason``.

- ``no_loss``: a message on a link arrives, unless its receiver is down. If a fault or a setting of the scenario loses
  messages, the first lost message breaks the assumption. A protocol that drops messages and reports them as lost is not
  excused.
- ``no_duplicates``: a message arrives once. The first message that is sent after the start of a fault ``duplicate``
  breaks it.
- ``order``: two messages of the same sender, receiver and latency arrive in the order of sending. The first message
  that is sent after the start of a fault ``reorder`` breaks it.
"""
