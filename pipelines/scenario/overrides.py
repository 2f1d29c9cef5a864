"""Values set from outside: ``--set protocol.delta=2`` changes one value of a scenario before it is checked."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.errors import ScenarioError
from pipelines.scenario.reading import read_yaml
from pipelines.scenario.shape import parse_path, unknown_step
from pipelines.scenario.tree import Complaint, Node, Path, Place, replaced


def apply_overrides(root: Node, overrides: Sequence[str]) -> tuple[Node, list[Complaint]]:
    """Sets values in a scenario's tree, in the order given.

    Args:
        root: The file's values.
        overrides: Texts ``path=value``: a dotted path, list items by index from 0, and a value in YAML.

    Returns:
        The changed tree, and what is wrong with some of the texts: those are left out.
    """
    complaints: list[Complaint] = []
    for rank, text in enumerate(overrides, start=1):
        place = Place(rank, 0, 0, f"--set {text if len(text) <= 100 else text[:97] + '...'}")
        try:
            root, found = _applied(root, text, place)
            complaints += found
        except LookupError as error:
            complaints.append(Complaint(place, str(error.args[0])))
    return root, complaints


def _applied(root: Node, text: str, place: Place) -> tuple[Node, list[Complaint]]:
    path_text, separator, value_text = text.partition("=")
    if not separator or not path_text.strip():
        raise LookupError("this is no path=value; write e.g. --set protocol.delta=2")
    path = _of_grid(parse_path(path_text.strip()))
    wrong = unknown_step(path)
    if wrong is not None:
        raise LookupError(wrong)
    try:
        node, complaints = read_yaml(value_text, lambda _line, _column: place)
    except ScenarioError as error:
        raise LookupError(str(error).removeprefix(f"{place}: ")) from None
    return replaced(root, path, node), complaints


def _of_grid(path: Path) -> Path:
    """Returns a path with what the grid varies as one step: its keys are paths themselves."""
    inside = path[2:] if path[:2] == ("runs", "grid") else ()
    return (*path[:2], ".".join(map(str, inside))) if inside else path
