"""Rules that several parts of a scenario have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from pipelines.errors import InputError, Problem
from pipelines.spec.base import Strict


def one_of(model: Strict, names: tuple[str, ...], what: str) -> None:
    """Checks that exactly one of some keys is given.

    Args:
        model: The part that has the keys.
        names: The keys; one whose value is None is not given.
        what: What the part is called in messages.

    Raises:
        InputError: None of them is given, or more than one.
    """
    given = [name for name in names if getattr(model, name) is not None]
    if not given:
        raise InputError(Problem((), f"{what} has none of {', '.join(names)}; write exactly one of them"))
    if len(given) > 1:
        message = f"{what} has {' and '.join(given)}; exactly one of {', '.join(names)} is allowed"
        raise InputError(*(Problem((name,), message) for name in given[1:]))


def _scalar_identity(value: object) -> Hashable:
    return isinstance(value, bool), value


def repetition_problems(
    path: tuple[str | int, ...], values: Sequence[object], identity: Callable[[object], Hashable] = _scalar_identity
) -> Iterator[Problem]:
    """Yields a problem for each value that was there before; 1 and 1.0 are the same, 1 and true are not.

    Args:
        path: Where the values are.
        values: The values.
        identity: Is equal for values that are the same; values other than scalars need one of their own.
    """
    first: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        before = first.setdefault(identity(value), index)
        if before != index:
            shown = f"{value!r} is" if isinstance(value, (str, int, float, type(None))) else "this value is"
            yield Problem(
                (*path, index), f"{shown} there already, as number {before + 1} of the list; allowed: each value once"
            )


def end_problems(round_: int, until: int | None) -> Iterator[Problem]:
    """Yields a problem where something ends, but not after it begins."""
    if until is not None and until <= round_:
        message = f"until is {until}, not after round {round_}; allowed: {round_ + 1} or later"
        yield Problem(("until",), message)
