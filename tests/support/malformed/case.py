"""What a malformed scenario is, as a test case."""

from __future__ import annotations

from dataclasses import dataclass, replace

MARK = "§"
HEAD = "name: t\nprotocol: {name: delta}\n"
LINKS = HEAD + "overlay: {links: [[A, B], [B, C]]}\n"


@dataclass(frozen=True)
class Case:
    """One malformed scenario.

    Attributes:
        name: What is wrong with it.
        data: The file's bytes.
        place: ``line:column`` of the error; ``--set ...`` for values from outside; empty where the file has none.
        words: Texts that the message must contain: what is wrong, and what is allowed.
        overrides: Values for ``--set``.
        needs_build: Whether the error only shows when the overlay or the workload is built.
        files: Names and bytes of files that lie beside it.
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
