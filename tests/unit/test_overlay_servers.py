"""Servers at brokers: named, one at each broker, or at the most central ones; roles in the tables of a run."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError
from pipelines.experiment.build import build_inputs
from pipelines.experiment.plan import combinations
from pipelines.experiment.prepared import prepare
from pipelines.inputs.faults.build import drawn_group
from pipelines.inputs.overlay.build import build_overlay, choose_faulty, choose_nodes
from pipelines.scenario.overlay import OverlaySpec
from pipelines.testing import run_configs, scenario

LINKS = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e", 5]]


def made(servers: Any, clients: Any = ()) -> Overlay:
    spec = OverlaySpec.model_validate({"links": LINKS, "servers": servers, "clients": list(clients)})
    return build_overlay(spec, seed=0, round_ms=10.0, needs_tree=False, beside=None)


def at(overlay: Overlay) -> dict[str, str]:
    """Returns the broker of each server."""
    ends = {int(b): overlay.names[a] for a, b in zip(overlay.a.tolist(), overlay.b.tolist(), strict=True)}
    first = overlay.n_brokers
    return {overlay.names[node]: ends[node] for node in range(first, first + overlay.n_servers)}


@pytest.mark.parametrize(
    ("generate", "brokers"),
    [
        ({"at": "all"}, ["a", "b", "c", "d", "e"]),
        ({}, ["c"]),
        ({"count": 2}, ["b", "c"]),
        ({"count": 3, "latency": 4}, ["b", "c", "d"]),
        ({"at": ["e", "a"], "prefix": "S"}, ["e", "a"]),
    ],
)
def test_placed_by_rule(generate: dict[str, Any], brokers: list[str]) -> None:
    """e is 5 rounds behind d: c has the least latency to all others, then b and d, b by its id."""
    prefix = generate.get("prefix", "R")
    assert at(made({"generate": generate})) == {f"{prefix}{i + 1}": name for i, name in enumerate(brokers)}


def test_ids_and_links() -> None:
    overlay = made([{"name": "R", "at": "b", "latency": 3}], [{"name": "X", "at": "a"}, {"name": "Y", "at": "b"}])
    assert overlay.names[5:] == ("R", "X", "Y")
    assert (overlay.n_brokers, overlay.n_servers, overlay.n_clients, overlay.first_client) == (5, 1, 2, 6)
    links = dict(zip(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True), overlay.latency_rounds, strict=True))
    assert (links[1, 5], links[0, 6], links[1, 7]) == (3, 1, 1)


def test_who_is_meant_by_all() -> None:
    overlay = made([{"name": "R", "at": "b"}], [{"name": "X", "at": "a"}, {"name": "Y", "at": "b"}])
    for nodes, ids in (
        ("all", [6, 7]),
        ("servers", [5]),
        ("clients", [6, 7]),
        ("leaves", [6, 7]),
        ("brokers", [*range(5)]),
    ):
        assert choose_nodes(nodes, overlay, 0, "test", ()).tolist() == ids, nodes
    assert choose_faulty("all", overlay, ()).tolist() == list(range(8))
    assert choose_faulty("servers", overlay, ()).tolist() == [5]


@pytest.mark.parametrize("nodes", ["all", 1])
def test_without_clients_no_node_has_applications(nodes: Any) -> None:
    overlay = made([{"name": "R", "at": "b"}])
    with pytest.raises(InputError, match="the overlay has servers and no clients"):
        choose_nodes(nodes, overlay, 0, "test", ())
    assert choose_faulty("all", overlay, ()).tolist() == list(range(6))


def test_a_group_without_links_has_its_share_of_the_nodes() -> None:
    spec = OverlaySpec.model_validate({"nodes": {"count": 9, "supervisors": 1}})
    overlay = build_overlay(spec, seed=0, round_ms=10.0, needs_tree=False, beside=None)
    groups = [drawn_group(overlay, 0.4, 0, "test", number) for number in range(20)]
    assert {len({*group}) for group in groups} == {4}
    assert len({*map(tuple, groups)}) > 10
    assert choose_faulty("all", overlay, ()).tolist() == list(range(1, 10))


def calls_to_servers() -> dict[str, Any]:
    return scenario(
        protocol={"name": "repository", "topics": {"t": {"owner": "X"}}},
        overlay={"links": LINKS, "servers": {"generate": {}}, "clients": [{"name": "X", "at": "a"}]},
        workload={
            "publications": [{"at": "X", "round": 20, "topic": "t"}],
            "calls": [
                {"at": "R1", "round": 30, "kind": "leave"},
                {"at": "X", "round": 7, "kind": "register", "topic": "t", "peer": "X", "role": "publisher"},
                {"at": "X", "round": 9, "kind": "steer", "topic": "t", "peer": "R1"},
            ],
        },
    )


def test_roles_and_calls_of_a_run() -> None:
    inputs = build_inputs(run_configs([calls_to_servers()]), None)
    assert inputs.node["role"].to_pylist() == ["broker"] * 5 + ["repository", "client"]
    rows = sorted(tuple(row.values())[1:] for row in inputs.control_calls.to_pylist())
    assert rows == [
        (5, 1, 30, "leave", None, None, None),
        (6, 1, 7, "register", "t", 6, "publisher"),
        (6, 2, 9, "steer", "t", 5, None),
    ]  # fmt: skip


def test_the_last_round_of_a_plan_includes_calls_to_servers() -> None:
    (planned,) = combinations(prepare(calls_to_servers()))
    assert planned.last_round == 30
