"""``roundtable list``: what there is, a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Lines = Sequence[tuple[str, str]]


def _protocols() -> Lines:
    from pipelines.protocols import BROKEN, PROTOCOLS, origin

    own = [(name, f"{spec.summary} [{origin(name)}]") for name, spec in PROTOCOLS.items()]
    return own + [(name, f"not there: {reason}") for name, reason in BROKEN.items()]


def _scenarios() -> Lines:
    from importlib.resources import files

    from pipelines.files import installed_data
    from pipelines.protocols import PROTOCOLS

    folders = [files(spec.scenarios) for spec in PROTOCOLS.values() if spec.scenarios]
    found = [path for folder in (installed_data() / "conf" / "scenarios", *folders) for path in folder.iterdir()]
    told = [(str(path), path.read_text("utf-8")) for path in found if path.name.endswith(".yaml")]
    return [(path, text.partition("\n")[0].removeprefix("#").strip()) for path, text in sorted(told)]


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
    "scenarios": _scenarios,
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
