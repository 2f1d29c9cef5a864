"""The mirror of Maven Central that this machine's Maven is told to use; Spark's Ivy does not look for it itself."""

from __future__ import annotations

import os
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

_OF_CENTRAL = frozenset({"*", "central", "external:*"})


def central_mirror() -> str | None:
    """Returns the mirror's URL with a slash at its end: from the user's settings, else from Maven's own, else none."""
    for file in (Path.home() / ".m2" / "settings.xml", *_maven_settings()):
        url = mirror_in(file)
        if url:
            return url
    return None


def mirror_in(file: Path) -> str | None:
    """Returns the URL of the first mirror of Central in a ``settings.xml``; none if it has none or cannot be read."""
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314 - the user's own settings
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        of = {word.strip() for word in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        url = (mirror.findtext("{*}url") or "").strip()
        is_blocked = (mirror.findtext("{*}blocked") or "").strip() == "true"
        if url and not is_blocked and of & _OF_CENTRAL and "!central" not in of:
            return url if url.endswith("/") else url + "/"
    return None


def _maven_settings() -> list[Path]:
    homes = [os.environ[name] for name in ("MAVEN_HOME", "M2_HOME") if os.environ.get(name)]
    program = shutil.which("mvn")
    if program:
        homes.append(str(Path(program).resolve().parents[1]))
    return [Path(home, "conf", "settings.xml") for home in homes]
