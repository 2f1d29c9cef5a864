"""What protocols promise, and the classes of their messages: view ``protocol``."""

from __future__ import annotations

from pipelines.protocols import PROTOCOLS

PROMISES = ("name", "confirms", "confirms_delivery", "keeps_source_order")
KINDS = ("maintenance", "application", "acknowledgement", "recovery")


def promises() -> str:
    """Returns the protocols as rows of SQL: their names, what they promise, and their kinds of messages by class."""
    rows = []
    for spec in PROTOCOLS.values():
        promised = ", ".join(str(getattr(spec, name)).lower() for name in PROMISES[1:])
        kinds = (", ".join(map(repr, getattr(spec, name))) for name in KINDS)
        listed = ", ".join(f"cast(array({of}) as array<string>)" for of in kinds)
        rows.append(f"('{spec.name}', {promised}, {listed})")
    return ", ".join(rows)
