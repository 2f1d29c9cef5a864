"""Records as JSON, which equals the output of the standard encoder, and as rows of tables, which come back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from udfs.nodes.arrow import Messages, lists_of, record_columns, structs, values_by_node
from udfs.nodes.block import shown_type
from udfs.nodes.fields import json_writer
from udfs.nodes.program import Declared, NodeProgram, Plan
from udfs.nodes.records import message, record, spec_of
from udfs.nodes.world import ProgramError


class Place(NamedTuple):
    """Where something is."""

    node: int
    name: str | None


@dataclass(slots=True)
class Part:
    """A part of a row."""

    weight: float
    places: list[Place]


@record()
class Whole:
    """A row with fields of all kinds.

    Attributes:
        number: A number.
        text: A text.
        share: A number with a fraction.
        is_set: A truth value.
        perhaps: A number, or none.
        names: Texts in an order.
        known: Numbers.
        gaps: Numbers, some of them none.
        part: A part.
        by_key: Parts by number; some have none.
        nested: Lists of lists.
    """

    number: int
    text: str
    share: float
    is_set: bool
    perhaps: int | None
    names: tuple[str, ...]
    known: frozenset[int]
    gaps: list[int | None]
    part: Part | None
    by_key: dict[int, Place | None]
    nested: list[list[str]] = field(default_factory=list)


_LONGS = st.integers(-(2**63), 2**63 - 1)
_WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_PLACES = st.builds(Place, _LONGS, st.none() | _WORDS)
_WHOLES = st.builds(
    Whole, _LONGS, _WORDS, _FLOATS, st.booleans(), st.none() | _LONGS, st.lists(_WORDS, max_size=3).map(tuple),
    st.frozensets(_LONGS, max_size=3), st.lists(st.none() | _LONGS, max_size=3),
    st.none() | st.builds(Part, _FLOATS, st.lists(_PLACES, max_size=2)),
    st.dictionaries(_LONGS, st.none() | _PLACES, max_size=3), st.lists(st.lists(_WORDS, max_size=2), max_size=2),
)  # fmt: skip


def encoded(row: Whole | Told) -> dict[str, Any]:
    """Returns a row as an object, by the functions that columns are made with."""
    values = {name: (kind.encode, getattr(row, name)) for name, kind in spec_of(type(row)).types.items()}
    return {name: encode(one) for name, (encode, one) in values.items() if one is not None}


@given(_WHOLES)
def test_a_text_is_what_the_encoder_makes(row: Whole) -> None:
    expected = json.dumps(encoded(row), ensure_ascii=False, separators=(",", ":"))
    assert json_writer(spec_of(Whole).types)(row) == expected


def stored(record: type, runs: list[dict[int, list[Any]]]) -> pa.Array:
    """Returns the table of an ordered attribute, as a list of rows for each run."""
    one = Declared("ordered", record, is_durable=False)
    owned = [(node, place, row) for nodes in runs for node, rows in nodes.items() for place, row in enumerate(rows)]
    columns = record_columns(one, [row for *_, row in owned])
    columns |= {"node_id": [node for node, *_ in owned], "position": [place for _, place, _ in owned]}
    lengths = [sum(map(len, nodes.values())) for nodes in runs]
    return lists_of(lengths, columns, structs(**shown_type(one)))


@given(st.lists(st.dictionaries(st.integers(0, 3), st.lists(_WHOLES, min_size=1, max_size=2), max_size=3), max_size=3))
def test_rows_come_back(runs: list[dict[int, list[Whole]]]) -> None:
    assert values_by_node(Declared("ordered", Whole, is_durable=False), stored(Whole, runs)) == runs


def test_rows_of_a_keyed_attribute_come_back_in_the_order_of_their_keys() -> None:
    rows = stored(Named, [{5: [Named("b"), Named("a")], 2: [Named("c")]}, {}])
    first, second = values_by_node(Declared("keyed", Named, is_durable=False), rows)
    assert {node: list(by_key.items()) for node, by_key in first.items()} == {
        5: [("a", Named("a")), ("b", Named("b"))], 2: [("c", Named("c"))],
    }  # fmt: skip
    assert second == {}


@record(key="name")
class Named:
    """A row with a key.

    Attributes:
        name: Its key.
    """

    name: str


@record()
class Counted:
    """A count.

    Attributes:
        n: How many.
        of: Of what.
    """

    n: int = 0
    of: str = ""


@pytest.mark.parametrize(("n", "shown"), [(1.5, "1.5"), ("7", "'7'"), (None, "None")])
def test_a_value_of_another_type_is_told_with_its_field(n: Any, shown: str) -> None:
    with pytest.raises(ProgramError, match=rf"Counted\.n is {shown}; allowed: bigint"):
        stored(Counted, [{1: [Counted(3), Counted(n)]}])


@record()
class Flagged:
    """A flag.

    Attributes:
        is_set: Whether it is set.
        name: What it is called.
    """

    is_set: bool = False
    name: str = ""


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (Flagged(is_set=None), r"Flagged\.is_set is None; allowed: boolean"),  # type: ignore[arg-type]
        (Flagged(is_set="no"), r"Flagged\.is_set is 'no'; allowed: boolean"),  # type: ignore[arg-type]
        (Flagged(name=7), r"Flagged\.name is 7; allowed: string"),  # type: ignore[arg-type]
    ],
)
def test_flags_and_names_are_told_with_their_field(row: Flagged, told: str) -> None:
    with pytest.raises(ProgramError, match=told):
        stored(Flagged, [{1: [row]}])


@message()
class Weighed:
    """A weight.

    Attributes:
        weight: How heavy it is.
    """

    weight: float


@pytest.mark.parametrize("weight", [float("inf"), float("-inf"), float("nan"), True, "1.5", None, 10**400])
def test_a_weight_that_is_no_finite_number_is_told_with_its_field(weight: Any) -> None:
    class Scales(NodeProgram):
        messages = (Weighed,)

        def on_weighed(self, m: Weighed, src: int, ctx: Any) -> None: ...

    for write in (lambda one: stored(Weighed, [{1: [one]}]), lambda one: Messages(Plan.of(Scales)).columns([one])):
        with pytest.raises(ProgramError, match=r"Weighed\.weight is .*; allowed: double"):
            write(Weighed(weight))


def test_zeros_keep_their_signs_and_whole_weights_are_doubles() -> None:
    write = json_writer(spec_of(Weighed).types)
    found = [write(Weighed(weight)) for weight in (0.0, -0.0, 1, np.float32(0.5))]  # type: ignore[arg-type]
    assert found == ['{"weight":0.0}', '{"weight":-0.0}', '{"weight":1.0}', '{"weight":0.5}']


class Way(NamedTuple):
    """A way whose field has the name of a keyword."""

    from_: int
    to: int


@record()
class Journey:
    """A journey.

    Attributes:
        way: Its way.
    """

    way: Way


def test_a_nested_field_with_the_name_of_a_keyword_comes_back() -> None:
    rows = {1: [Journey(Way(5, 7))]}
    column = stored(Journey, [rows])
    assert column.flatten().field("way").to_pylist() == [{"from": 5, "to": 7}]
    assert values_by_node(Declared("ordered", Journey, is_durable=False), column) == [rows]


def test_a_number_that_no_column_holds_is_told_with_its_field() -> None:
    with pytest.raises(ProgramError, match="a value of n is not of type bigint"):
        lists_of([1], {"n": [2**63], "of": ["x"]}, structs(n=pa.int64(), of=pa.string()))


@pytest.mark.parametrize("n", [2**63 - 1, -(2**63)])
def test_the_largest_numbers_of_a_column_are_written(n: int) -> None:
    assert json_writer(spec_of(Counted).types)(Counted(n)) == f'{{"n":{n},"of":""}}'


@pytest.mark.parametrize("n", [2**63, -(2**63) - 1, 2**70])
def test_a_number_that_no_column_holds_is_not_written(n: int) -> None:
    with pytest.raises(TypeError, match=f"{n} is not an integer of 64 bits"):
        json_writer(spec_of(Counted).types)(Counted(n))


def test_a_string_that_is_no_unicode_is_told_with_its_field() -> None:
    with pytest.raises(ProgramError, match="a value of of is not of type string"):
        lists_of([1], {"n": [1], "of": ["\ud800"]}, structs(n=pa.int64(), of=pa.string()))


def test_a_truth_value_counts_as_a_number_where_it_stands_for_one() -> None:
    assert json_writer(spec_of(Counted).types)(Counted(True)) == '{"n":1,"of":""}'


@message()
class Ping:
    """Carries nothing."""


@message()
class Pong:
    """Carries a count.

    Attributes:
        source: Who asked.
        n: How many.
    """

    source: int
    n: int


@message(hidden="n")
class Veiled:
    """Shows where it comes from.

    Attributes:
        source: Who sent it.
        from_: Where it comes from.
        n: How many, which the history does not show.
    """

    source: int
    from_: int
    n: int | None


class Table(NodeProgram):
    """Plays."""

    messages = (Ping, Pong, Veiled)

    def on_message(self, m: Any, src: int, ctx: Any) -> None:
        """Does nothing."""


def test_what_a_message_carries_comes_back() -> None:
    messages = Messages(Plan.of(Table))
    columns = messages.columns([Ping(), Pong(3, 4)])
    assert columns == {
        "source": [None, 3], "source_seq": [None, None], "body": [None, '{"n":4}'], "hidden": [None, None],
    }  # fmt: skip
    assert messages.message("Pong", 3, None, '{"n":4}', None) == Pong(3, 4)
    assert messages.message("Ping", None, None, None, None) == Ping()


def test_fields_that_the_history_does_not_show_are_apart_and_come_back() -> None:
    messages = Messages(Plan.of(Table))
    columns = messages.columns([Veiled(3, 1, 4)])
    assert columns == {"source": [3], "source_seq": [None], "body": ['{"from":1}'], "hidden": ['{"n":4}']}
    assert messages.message("Veiled", 3, None, '{"from":1}', '{"n":4}') == Veiled(3, 1, 4)


def test_a_message_with_a_value_of_another_type_is_told_with_its_field() -> None:
    with pytest.raises(ProgramError, match=r"Pong\.n is 'four'; allowed: bigint"):
        Messages(Plan.of(Table)).columns([Pong(3, "four")])  # type: ignore[arg-type]


def test_names_that_expressions_use_may_be_names_of_fields() -> None:
    @record()
    class Odd:
        """A row.

        Attributes:
            row: A number.
            one: More of them.
        """

        row: int
        one: list[int]

    assert json_writer(spec_of(Odd).types)(Odd(1, [2, 3])) == '{"row":1,"one":[2,3]}'


@message()
class Told:
    """A message whose documents are remembered.

    Attributes:
        sorted: A number, or none.
        is_set: A truth value.
        name: What it is called.
        one: Places in an order.
    """

    sorted: int | None
    is_set: bool
    name: str
    one: tuple[Place, ...]


def test_a_remembered_document_is_that_of_equal_values_of_equal_types() -> None:
    remember = json_writer(spec_of(Told).types)
    places = (Place(1, None), Place(2, "x"))
    told = [Told(1, True, "a", places), Told(None, False, "", ()), Told(0, True, "a", places), Told(1, True, "a", ())]
    expected = [json.dumps(encoded(one), separators=(",", ":")) for one in told]
    assert [remember(one) for one in [*told, *told]] == [*expected, *expected]


def test_a_remembered_document_excuses_no_value_of_another_type() -> None:
    remember = json_writer(spec_of(Told).types)
    remember(Told(1, True, "a", ()))
    with pytest.raises(TypeError):
        remember(Told(1, 1, "a", ()))  # type: ignore[arg-type]


def test_documents_of_values_that_are_no_keys_are_written_each_time() -> None:
    remember = json_writer(spec_of(Whole).types)
    row = Whole(1, "a", 0.5, True, None, ("b",), frozenset({1}), [None], None, {}, [])
    assert json.loads(remember(row))["gaps"] == [None]
    row.gaps.append(3)
    assert json.loads(remember(row))["gaps"] == [None, 3]


def test_numbers_with_fractions_in_tuples_are_written_each_time() -> None:
    @message()
    class Weighed:
        """A message.

        Attributes:
            weights: Numbers with fractions.
        """

        weights: tuple[float, ...]

    remember = json_writer(spec_of(Weighed).types)
    assert [remember(Weighed(one)) for one in ((0.0,), (-0.0,), (0,))] == [
        '{"weights":[0.0]}', '{"weights":[-0.0]}', '{"weights":[0.0]}'
    ]  # fmt: skip
