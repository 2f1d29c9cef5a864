"""What a protocol says of itself before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pipelines.contract.forms import Form
from pipelines.errors import Problem, ProtocolError
from pipelines.inputs.faults.tables import Faults
from pipelines.inputs.overlay.graph import Overlay
from pipelines.inputs.workload.tables import Workload
from pipelines.spec.base import Strict

SETTINGS_JSON = "settings_json"
"""The column of a run's settings that has all of them as JSON."""
Check = Callable[[Any, Overlay, Workload, Faults], Iterator[Problem]]
"""Yields what a protocol with these settings cannot run with, each problem at its place in the scenario."""


@dataclass(frozen=True)
class ProtocolSpec:
    """A protocol's entry in the registry.

    Attributes:
        name: The name in scenario files.
        summary: One line for ``roundtable list``.
        settings: The model of its part of a scenario; has a field ``name: Literal[name]`` and defaults for the rest.
        needs_tree: Whether it runs on trees only.
        confirms: Whether it confirms calls; otherwise a call is final when it is issued.
        confirms_delivery: Whether a publication is confirmed only when all who are to have it do; otherwise its
            confirmation says less, for example that it is stored.
        keeps_source_order: Whether a subscriber gets all publications of a source in their order.
        reconfigures: Whether it goes on when links are replaced (`udfs.nodes.program.NodeProgram.notices_links`).
        builds_overlay: Whether its joins make the whole overlay (``overlay.start: joining``).
        maintenance: The kinds of messages that nodes send for ever, though nothing is to be done: a run that ends with
            only such messages in flight is decided.
        application: The kinds of messages that carry publications, for comparisons with other protocols.
        acknowledgement: The kinds that say what has come, or was stored or processed.
        recovery: The kinds that bring or ask for what was lost, and that bring nodes back; all others are control.
        draws: Whether its nodes draw, so that runs of the same inputs depend on the seed.
        makes_overlay: Whether it links nodes itself, so that the scenario lists nodes only (``overlay.nodes``).
        edges: The view of the edges that its nodes hold, where it makes the overlay: reports draw them, and lay nodes
            out by those that are no shortcuts. Its columns: ``run_id, node_id, held_node_id, is_shortcut, round``, and
            ``until_round``, null: to the end. None: there is none.
        servers: What the overlay's servers are called in table ``node``; None: its overlays have none.
        calls: The kinds of calls that it takes beside subscriptions, publications and `workload.joins`.
        variants: Settings that are worth a try where protocols are compared on a scenario, each without the name.
        orders: The orders of delivery that it keeps where a publication asks for one (``guarantee``).
        steps_bear_faults: Whether its steps play runs with faults or joins, too; otherwise its program does.
        check: What it demands of a run's overlay, workload and faults beside the general rules; None: nothing.
        program: The module whose ``PROTOCOL`` is a `contract.nodes.NodeProtocol`; it imports PySpark, so it is loaded
            when a run starts. None: the protocol has no node program.
        steps: The module whose ``PROTOCOL`` has dataflow steps, a `contract.round.Protocol`; None: it has none. One of
            the two is given. With both, their rows are the same.
        views: The package whose SQL files are views of this protocol's stores; None: there are none.
        scenarios: The package whose YAML files are scenarios of it; None: there are none.
    """

    name: str
    summary: str
    settings: type[Strict]
    needs_tree: bool
    confirms: bool
    program: str | None = None
    steps: str | None = None
    steps_bear_faults: bool = True
    confirms_delivery: bool = True
    keeps_source_order: bool = True
    reconfigures: bool = False
    builds_overlay: bool = True
    maintenance: tuple[str, ...] = ()
    application: tuple[str, ...] = ()
    acknowledgement: tuple[str, ...] = ()
    recovery: tuple[str, ...] = ()
    draws: bool = True
    makes_overlay: bool = False
    edges: str | None = None
    servers: str | None = None
    calls: tuple[str, ...] = ()
    variants: tuple[Mapping[str, Any], ...] = ({},)
    orders: tuple[str, ...] = ()
    check: Check | None = None
    views: str | None = None
    scenarios: str | None = None

    def __post_init__(self) -> None:
        """Checks that the protocol can be played.

        Raises:
            ProtocolError: It has neither form.
        """
        if not self.forms:
            raise ProtocolError(self.name, ["its spec names neither a program nor steps; allowed: one or both"])

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that it has, the one that `auto` takes for small runs first."""
        return tuple(form for form in get_args(Form) if self.module(form) is not None)

    def forms_for(self, *, has_faults: bool) -> tuple[Form, ...]:
        """Returns the forms that play runs.

        Args:
            has_faults: Whether a run has faults or joins.
        """
        return self.forms if self.steps_bear_faults or not has_faults else ("program",)

    def module(self, form: Form) -> str | None:
        """Returns the module of a form; None where the protocol lacks it."""
        return self.program if form == "program" else self.steps
