"""A malformed scenario as a test case."""

from __future__ import annotations

from dataclasses import dataclass, replace

MARK = "§"
HEAD = "name: t\nprotocol: {name: delta}\n"
LINKS = HEAD + "overlay: {links: [[A, B], [B, C]]}\n"


@dataclass(frozen=True)
class Case:
    """A malformed scenario.

    Attributes:
        name: The error as a phrase; the id of the test.
        data: The bytes of the scenario file.
        place: The position that the error message must state: ``line:column``; ``--set ...`` for overrides; empty if
            the error has no position.
        words: Strings that the error message must contain: the wrong value, and the allowed values.
        overrides: Values of ``--set``.
        needs_build: Whether the error is found only when the overlay or the workload is built.
        files: Names and contents of other files in the folder of the scenario file.
    """

    name: str
    data: bytes
    place: str
    words: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    needs_build: bool = False
    files: tuple[tuple[str, bytes], ...] = ()


def refused(name: str, text: str, *words: str) -> Case:
    before, mark, after = text.partition(MARK)
    assert mark, f"case {name!r} has no mark"
    place = f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
    return Case(name, (before + after).encode(), place, words)


def refused_when_built(name: str, text: str, *words: str, **files: bytes) -> Case:
    beside = tuple(
        (f"{stem}.{ending}", data) for (stem, ending), data in ((key.split("_"), files[key]) for key in files)
    )
    return replace(refused(name, text, *words), needs_build=True, files=beside)


def refused_from_outside(name: str, override: str, *words: str) -> Case:
    return Case(name, LINKS.encode(), f"--set {override}", words, overrides=(override,))


def refused_bytes(name: str, data: bytes, place: str, *words: str) -> Case:
    return Case(name, data, place, words)
