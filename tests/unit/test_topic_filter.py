"""Topic filters by the examples of OASIS MQTT 5.0, section 4.7: their form, and what they match."""

from __future__ import annotations

import re
from itertools import product

import pytest

from pipelines.contract.predicate import canonical, check_filter, has_wildcard, parse_predicates
from pipelines.errors import PredicateError
from udfs.nodes.matching import pattern_of

EXAMPLES = [
    # 4.7.1.2, multi-level wildcard
    ("sport/tennis/player1/#", "sport/tennis/player1", True),
    ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
    ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
    ("sport/tennis/player1/#", "sport/tennis/player10", False),
    ("sport/#", "sport", True),
    ("sport/#", "sports", False),
    ("#", "sport/tennis", True),
    ("#", "/", True),
    # 4.7.1.3, single-level wildcard
    ("sport/tennis/+", "sport/tennis/player1", True),
    ("sport/tennis/+", "sport/tennis/player2", True),
    ("sport/tennis/+", "sport/tennis/player1/ranking", False),
    ("sport/+", "sport", False),
    ("sport/+", "sport/", True),
    ("+", "sport", True),
    ("+/tennis/#", "sport/tennis", True),
    ("+/tennis/#", "a/tennis/b/c", True),
    ("sport/+/player1", "sport/tennis/player1", True),
    ("sport/+/player1", "sport//player1", True),
    ("+/+", "/finance", True),
    ("/+", "/finance", True),
    ("+", "/finance", False),
    # 4.7.2, topics beginning with $
    ("#", "$SYS/monitor/Clients", False),
    ("+/monitor/Clients", "$SYS/monitor/Clients", False),
    ("$SYS/#", "$SYS/monitor/Clients", True),
    ("$SYS/#", "$SYS", True),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
    ("a/+", "a/$b", True),
    # 4.7.3, semantics: case, spaces, slashes at the ends
    ("ACCOUNTS/+", "Accounts/x", False),
    ("Accounts payable/+", "Accounts payable/x", True),
    ("/finance/#", "finance", False),
    ("finance/+", "finance", False),
    # characters with a meaning in regular expressions
    ("a.b/+", "axb/c", False),
    ("a.b(c)[d]{e}|^$*?\\/+", "a.b(c)[d]{e}|^$*?\\/x", True),
    ("+/temp", "a/temp\n", False),
    ("a/+/b/+", "a/x/y/b", False),
]


@pytest.mark.parametrize(("text", "topic", "is_matched"), EXAMPLES)
def test_a_filter_matches_as_the_specification_says(text: str, topic: str, is_matched: bool) -> None:
    check_filter(text)
    assert (re.search(pattern_of(text), f"{topic}/") is not None) == is_matched


def test_a_filter_agrees_with_a_comparison_level_by_level() -> None:
    levels, n_matched = ("", "a", "$b"), 0
    topics = ["/".join(parts) for n in (1, 2, 3) for parts in product(levels, repeat=n)]
    filters = ["/".join(parts) for n in (1, 2, 3) for parts in product((*levels, "+"), repeat=n)]
    for text, topic in product(filter(None, [*filters, *(f"{one}/#" for one in filters), "#"]), filter(None, topics)):
        wanted = _matches(text.split("/"), topic.split("/")) and not (text[0] in "+#" and topic[0] == "$")
        assert (re.search(pattern_of(text), f"{topic}/") is not None) == wanted, (text, topic)
        n_matched += wanted
    assert n_matched > 300


def _matches(levels: list[str], topic: list[str]) -> bool:
    """The definition, by recursion."""
    if levels == ["#"] or not levels:
        return levels == ["#"] or not topic
    return bool(topic) and levels[0] in ("+", topic[0]) and _matches(levels[1:], topic[1:])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sport/tennis#", "level 'tennis#'"),
        ("sport/tennis/#/ranking", "goes on after #"),
        ("sport+", "level 'sport+'"),
        ("a/++/b", "level '++'"),
        ("", "empty"),
        ("$share/group/sport/#", "shared subscription"),
    ],
)
def test_a_filter_of_another_form_is_refused(text: str, words: str) -> None:
    with pytest.raises(PredicateError) as caught:
        check_filter(text)
    assert words in str(caught.value)


def test_only_topics_with_wildcards_become_filters() -> None:
    def read(topic: str, where: str | None = None) -> str:
        return canonical(parse_predicates(topic, where, is_mqtt=True))

    assert read("sensors/#", "x > 1") == "topic filter 'sensors/#' and x > 1"
    assert read("sensors/1") == "topic = 'sensors/1'"
    assert canonical(parse_predicates("sensors/#", None)) == "topic = 'sensors/#'"
    assert canonical(parse_predicates(None, "topic filter a/+/b")) == "topic filter 'a/+/b'"
    assert parse_predicates(None, read("a/+")) == parse_predicates("a/+", None, is_mqtt=True)
    with pytest.raises(PredicateError, match="column 14 of the predicate: the topic filter 'a/b#'"):
        parse_predicates(None, "topic filter 'a/b#'")


def test_a_wildcard_is_a_level_of_its_own() -> None:
    assert [has_wildcard(text) for text in ("a/#", "#", "+", "a/+/b", "a+b", "c#", "a/#/b", "a")] == [
        True, True, True, True, False, False, False, False,
    ]  # fmt: skip
