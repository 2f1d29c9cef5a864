"""The scenarios that are installed: the project's own, and those that protocols of other packages bring."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from pipelines.errors import ScenarioError, nearest
from pipelines.files import installed_data
from pipelines.protocols import PROTOCOLS


def shipped() -> dict[str, Path]:
    """Returns the installed scenario files by name, in the order of their names; a folder is a part of the name."""
    folders = [Path(str(files(spec.scenarios))) for spec in PROTOCOLS.values() if spec.scenarios]
    found = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for folder in (*folders, _own())
        for path in folder.rglob("*.yaml")
    }
    return dict(sorted(found.items()))


def find_scenario(path: Path) -> Path:
    """Returns the scenario file that is meant by a path, or by the name of an installed scenario.

    Args:
        path: A file; or ``quickstart``, ``compared/loss``, or ``conf/scenarios/quickstart.yaml`` where there is no
            such folder.

    Raises:
        ScenarioError: There is neither such a file nor such a scenario.
    """
    if path.exists() or path.is_absolute():
        return path
    is_own = path.parts[:2] == _own().parts[-2:]
    name = (Path(*path.parts[2:]) if is_own else path).as_posix().removesuffix(".yaml")
    if path.suffix in ("", ".yaml"):
        found = shipped()
        if name in found:
            return found[name]
        if not path.suffix:
            told = (
                f"{path}: there is no such file, and no installed scenario of this name; allowed: {', '.join(found)};"
            )
            raise ScenarioError([told + nearest(path.name, found)])
    return path


def _own() -> Path:
    return installed_data() / "conf" / "scenarios"
