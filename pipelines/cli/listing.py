"""``roundtable list``: what there is, a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Lines = Sequence[tuple[str, str]]


def _protocols() -> Lines:
    from pipelines.protocols import PROTOCOLS

    return [(spec.name, spec.summary) for spec in PROTOCOLS.values()]


def _overlays() -> Lines:
    from pipelines.inputs.overlay.build import describe

    return describe()


def _workloads() -> Lines:
    from pipelines.inputs.workload.build import describe

    return describe()


def _faults() -> Lines:
    from pipelines.inputs.faults.build import describe

    return describe()


def _audits() -> Lines:
    from pipelines.audits.run import describe

    return describe()


GROUPS: Mapping[str, Callable[[], Lines]] = {
    "protocols": _protocols,
    "overlays": _overlays,
    "workloads": _workloads,
    "faults": _faults,
    "audits": _audits,
}


def print_groups(names: Sequence[str]) -> None:
    """Prints groups of names with what they are; with a heading each where there are several."""
    for name in names:
        lines = GROUPS[name]()
        width = max(len(key) for key, _ in lines)
        if len(names) > 1:
            print(f"{name}:")
        for key, summary in lines:
            print(f"{'  ' if len(names) > 1 else ''}{key:{width}}  {summary}")
