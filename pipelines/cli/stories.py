"""``roundtable why`` without a question: what went wrong, by cause."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pipelines.cli.lines import print_lines
from pipelines.cli.rows import print_table
from pipelines.why.overview import MAX_ASKED, overview, why_command
from pipelines.why.story import print_story

if TYPE_CHECKING:
    from pipelines.result import Result

_MAX_SHOWN = 20


def print_overview(result: Result, run_id: int | None, *, as_json: bool) -> None:
    """Prints deliveries that are missing, twice, late or excused, by cause, and tells the first."""
    found = overview(result.reader, run_id)
    commands = [why_command(result.store, group.options) for group in found.groups]
    if as_json:
        for group, command in zip(found.groups, commands, strict=True):
            row = {"what": group.what, "number": group.number, "cause": group.cause, "first": group.first.as_dict()}
            print(json.dumps(row | {"command": command}, ensure_ascii=False))
        return
    if not found.groups:
        print_lines("nothing to explain: each wanted delivery happened, once, and as early as the links allow")
        return
    rows = [(group.what, group.number, group.first.run_id, group.cause) for group in found.groups[:_MAX_SHOWN]]
    print_table(("what", "deliveries", "run", "cause of the first"), rows, (False, True, True, False))
    if len(found.groups) > _MAX_SHOWN:
        print(f"... and {len(found.groups) - _MAX_SHOWN:,} more causes: --json gives all")
    for what, number in found.left_out.items():
        print_lines(f"{number:,} more are {what} than the first {MAX_ASKED}: --run asks about one run, SQL about all")
    print()
    print_story(found.groups[0].first)
    print("\nthe first of each:")
    for command in commands[:_MAX_SHOWN]:
        print(f"  {command}")
