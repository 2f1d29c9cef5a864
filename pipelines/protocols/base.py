"""What a protocol says of itself before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.scenario.base import Strict


@dataclass(frozen=True)
class ProtocolSpec:
    """A protocol's entry in the registry.

    Attributes:
        name: The name in scenario files.
        summary: One line for ``roundtable list``.
        settings: The model of its part of a scenario; has a field ``name: Literal[name]`` and defaults for the rest.
        needs_tree: Whether it runs on trees only.
        confirms: Whether it confirms calls; otherwise a call is final when it is issued.
        module: The module with its ``PROTOCOL`` (imports PySpark, so it is loaded when a run starts).
    """

    name: str
    summary: str
    settings: type[Strict]
    needs_tree: bool
    confirms: bool
    module: str
