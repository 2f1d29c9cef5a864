"""Every column of every view says what it means, in a store of each protocol."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.contract.round import IN_FLIGHT, STATE
from pipelines.engines.session import Session
from pipelines.errors import QueryError
from pipelines.protocols import PROTOCOLS, protocol_form
from pipelines.sql import query, views
from pipelines.sql.computed import COMPUTED
from pipelines.sql.query import StoreReader
from pipelines.sql.snapshot import SENT_MESSAGE
from pipelines.sql.views import view_head, view_sources
from pipelines.tables import MESSAGE
from pipelines.testing import run_all, run_configs, scenario

TREE = {"links": [["A", "B"], ["B", "C"]]}
WITH_CLIENTS = {**TREE, "clients": [{"name": "P", "at": "A"}, {"name": "S", "at": "C"}]}
OVERLAYS: dict[str, dict[str, Any]] = {
    "delta": TREE,
    "forwarding": TREE,
    "epidemic": TREE,
    "flooding": TREE,
    "gossipsub": TREE,
    "ginger": WITH_CLIENTS,
    "skipring": {"nodes": {"count": 4, "supervisors": 1}},
    "repository": {**WITH_CLIENTS, "servers": {"generate": {"at": "all"}}},
}
IDS = {
    "node_id": "name", "src": "src_name", "dst": "dst_name", "source": "source_name", "subscriber": "subscriber_name",
    "parent": "parent_name", "repository": "repository_name", "client": "client_name", "owner": "owner_name",
    "held_node_id": "held_name",
}  # fmt: skip
"""Columns with the id of a node, and those with its name."""
UNNAMED = {"first_delivery", "matching", "sent_message"}
"""Relations that other views read; they have ids without names, and rounds without ms."""
LIMITS = {"needed_rounds", "reach_rounds", "remaining_rounds", "ways_rounds"}
"""Durations that are not measured."""


@pytest.fixture(scope="module")
def readers(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoreReader]:
    assert PROTOCOLS.keys() >= OVERLAYS.keys()
    root, found = tmp_path_factory.mktemp("columns"), {}
    for name, overlay in OVERLAYS.items():
        runs = run_configs([scenario(protocol={"name": name}, overlay=overlay, time={"rounds": 5})])
        found[name] = StoreReader(sail, run_all(runs, sail, root).root)
    return found


@pytest.fixture(scope="module", params=OVERLAYS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reader(readers: dict[str, StoreReader], protocol: str) -> StoreReader:
    return readers[protocol]


@pytest.fixture(scope="module")
def described(readers: dict[str, StoreReader], protocol: str) -> dict[str, dict[str, str | None]]:
    """The columns of each view of the store, with their comments."""
    reader = readers[protocol]
    known = {*view_sources(), SENT_MESSAGE, *COMPUTED, *PROTOCOLS[protocol].made_views}
    names = [name for name in reader.tables() if name in known]
    rows = {name: reader.sql(f"describe {name}").collect() for name in names}
    return {name: {row.col_name: row.comment for row in found} for name, found in rows.items()}


def test_every_column_of_every_view_says_what_it_means(described: dict[str, dict[str, str | None]]) -> None:
    assert len(described) >= 30
    assert [(view, name) for view, found in described.items() for name, meaning in found.items() if not meaning] == []


def test_every_column_of_every_state_table_says_what_it_means(reader: StoreReader, protocol: str) -> None:
    names = [name for name in reader.tables() if name.startswith(STATE)]
    assert len(names) >= 3
    for table in names:
        found = reader.sql(f"describe {table}").collect()
        assert [(table, row.col_name) for row in found if not row.comment] == []
    messages = {row.col_name: row.comment for row in reader.sql(f"describe {IN_FLIGHT}").collect()}
    assert messages["remaining_rounds"] == "number of rounds until the message is due"
    for name in {*protocol_form(protocol).payload.names} - {*MESSAGE.schema.names}:
        assert messages[name] == f"carried by messages of {protocol}"


def test_no_view_says_what_a_column_means_that_it_lacks(
    described: dict[str, dict[str, str | None]], protocol: str
) -> None:
    said = {name: {*view_head(name).columns} for name in described if name in view_sources()}
    said |= {name: {*view.columns} for name, view in PROTOCOLS[protocol].made_views.items()}
    lacking = {view: columns - described[view].keys() for view, columns in said.items()}
    assert {view: columns for view, columns in lacking.items() if columns} == {}


def test_an_id_of_a_node_stands_before_its_name(described: dict[str, dict[str, str | None]]) -> None:
    for view, found in described.items():
        columns = [*found]
        for place, name in enumerate(columns):
            if name in IDS and view not in UNNAMED:
                assert columns[place + 1 : place + 2] == [IDS[name]], (view, name)


def test_every_duration_is_there_in_ms_too(described: dict[str, dict[str, str | None]]) -> None:
    """What is measured, that is: no settings, and no round."""
    for view, found in ((view, found) for view, found in described.items() if view not in UNNAMED):
        durations = [name for name in found if "rounds" in name.split("_")[1:] and not name.startswith("protocol_")]
        assert {name.replace("rounds", "ms") for name in durations if name not in LIMITS} <= found.keys(), view


def test_every_view_is_in_one_of_these_stores(readers: dict[str, StoreReader]) -> None:
    assert {*view_sources()} <= {name for reader in readers.values() for name in reader.tables()}


def test_the_words_are_those_of_the_table_of_the_view_and_of_all_views(readers: dict[str, StoreReader]) -> None:
    found = readers["delta"].sql("describe message_detail").collect()
    said = {row.col_name: row.comment for row in found}
    assert said["body"] == "JSON object of the fields that are not in another column; null: no such fields"
    assert said["source_name"] == "name of the source"
    found = readers["delta"].sql("describe missing_delivery").collect()
    meaning = {row.col_name: row.comment for row in found}["subscription_id"]
    assert meaning == "lowest id of the active subscriptions that the publication satisfies"
    found = readers["delta"].sql("describe parameter").collect()
    assert {row.col_name: row.comment for row in found}["protocol_delta"].startswith("protocol.delta: ")


def test_a_view_of_a_stranger_may_leave_out_what_its_columns_mean(
    readers: dict[str, StoreReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "loose": "-- How many?\nselect run_id, count(1) as n_found, max(round) as round from delivery group by run_id",
        "wrapped": "-- Why?\n-- :n_found how\n--   many\n-- :* delivery\nselect n_found, hops from delivery, loose",
        "astray": "-- How many?\n-- :* message\nselect count(1) as n from delivery",
    }
    for module in (views, query):
        monkeypatch.setattr(module, "view_sources", lambda: texts)
    found = readers["delta"].sql("describe loose").collect()
    assert [(row.col_name, row.comment) for row in found] == [
        ("run_id", "the run, see table run"), ("n_found", None), ("round", None),
    ]  # fmt: skip
    found = readers["delta"].sql("describe wrapped").collect()
    assert [row.comment for row in found] == [
        "how many",
        "number of links between the source and the subscriber on the path of the delivered copy",
    ]
    with pytest.raises(
        QueryError, match=r"view 'astray' .* from 'message', which it does not read; allowed after '-- :"
    ):
        readers["delta"].sql("describe astray")
