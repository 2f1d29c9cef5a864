"""Topic filters of MQTT: wildcards in the topic of a subscription (OASIS MQTT 5.0, section 4.7).

``+`` stands for one level of a topic, which may be empty; ``#`` for the level before it and all below it. A filter that
begins with a wildcard matches no topic that begins with ``$``.
"""

from __future__ import annotations

import re

from pipelines.errors import PredicateError

LEVEL, REST = "+", "#"
_SEPARATOR = "/"
_SHARED = "$share/"
_META = re.compile(r"([\\.^$|?*+()\[\]{}])")


def has_wildcard(topic: str) -> bool:
    """Returns whether a topic would be a filter: a level is ``+``, or the last one is ``#``."""
    levels = topic.split(_SEPARATOR)
    return LEVEL in levels or levels[-1] == REST


def check_filter(text: str, column: int | None = None) -> None:
    """Checks the form of a topic filter.

    Args:
        text: The filter.
        column: Where it stands in a predicate, for the message.

    Raises:
        PredicateError: It is empty, a wildcard is not a level of its own, ``#`` is not the last level, or it is a
            shared subscription.
    """
    levels = text.split(_SEPARATOR)
    wrong = next((level for level in levels if len(level) > 1 and (LEVEL in level or REST in level)), None)
    if not text or "\0" in text:
        raise PredicateError("the topic filter is empty or has a zero character; give it a name", column)
    if text.startswith(_SHARED):
        raise PredicateError(
            f"the topic filter {text!r} is a shared subscription; allowed: filters without $share", column
        )
    if wrong is not None:
        message = (
            f"the topic filter {text!r} has the level {wrong!r}; allowed: + and # as levels of their own, as a/+/#"
        )
        raise PredicateError(message, column)
    if REST in levels[:-1]:
        raise PredicateError(f"the topic filter {text!r} goes on after #; allowed: # as the last level", column)


def pattern_of(text: str) -> str:
    """Returns the regular expression of a topic filter, for topics with a slash added at their end.

    The slash makes ``a/#`` match ``a``, and no topic ends in a line break, which ``$`` would overlook. The expression
    means the same in Java, in Rust and in Python.
    """
    *parents, last = text.split(_SEPARATOR)
    named = parents if last == REST else [*parents, last]
    below = "(?s:.*)" if last == REST else ""
    if not named:
        return f"^[^$]{below}$"
    levels = [_level(level, is_first=place == 0) for place, level in enumerate(named)]
    return f"^{''.join(f'{level}{_SEPARATOR}' for level in levels)}{below}$"


def _level(level: str, *, is_first: bool) -> str:
    if level != LEVEL:
        return _META.sub(r"\\\1", level)
    return "(?:[^/$][^/]*)?" if is_first else "[^/]*"
