"""Scenarios in the shape of users' files: what comes out is what the files say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.commands import cli

import pipelines as rt
from pipelines.engines.session import Session

BROKERS = "links: [[b1, b2], [b2, b3]]\n  clients: "
BY_CONTENT = ("forwarding", "delta", "epidemic")
Delivered = set[tuple[str, str, int]]


def delivered(folder: Path, sail: Session, text: str) -> Delivered:
    """Runs a scenario; returns protocol, subscriber and publication number of each delivery."""
    (folder / "s.yaml").write_text(text, encoding="utf-8")
    result = rt.run(folder / "s.yaml", sail.spark, folder / "store")
    assert result.verdict == "valid"
    assert result.sql("select * from missing_delivery").count() == 0
    asked = "select protocol, subscriber_name, source_seq from delivery_detail join run using (run_id)"
    return {tuple(row) for row in result.sql(asked).collect()}


FILTERS = f"""
name: sensors
protocol: {{name: PROTOCOL}}
overlay:
  {BROKERS}[{{name: sensor, at: b1}}, {{name: dash, at: b3}}, {{name: alarm, at: b2}}]
workload:
  topics: mqtt
  subscriptions:
    - {{at: dash, topic: "sensors/#"}}
    - {{at: dash, topic: "sensors/+/temp"}}
    - {{at: alarm, topic: sensors/1/temp}}
  publications: [{{at: sensor, round: 25, topic: sensors/1/temp}}, {{at: sensor, round: 26, topic: sensors/2/temp}}]
time: {{rounds: 100}}
"""


@pytest.fixture(scope="module")
def sensors(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Delivered:
    """The deliveries of all protocols with content filters: `FILTERS`, and publications with long identifiers."""
    ids = [1709287200000000001, 1709287200000000002, 1709287200000000090, 1709287200000000300]
    clients = "[{name: S, at: b2}, {name: T, at: b2}, "
    wanted = f"- {{at: S, where: order_id = {ids[0]}}}\n    - {{at: T, where: order_id > {ids[0]}}}\n    - {{at: dash"
    text = FILTERS.replace("clients: [", f"clients: {clients}").replace("- {at: dash", wanted, 1)
    published = ", ".join(f"{{at: sensor, round: {27 + i}, content: {{order_id: {one}}}}}" for i, one in enumerate(ids))
    text = text.replace("sensors/2/temp}]", f"sensors/2/temp}}, {published}]").replace("PROTOCOL", "forwarding")
    grid = ", ".join(f"{{name: {name}}}" for name in BY_CONTENT)
    return delivered(tmp_path_factory.mktemp("sensors"), sail, f"{text}runs: {{grid: {{protocol: [{grid}]}}}}\n")


def test_topics_are_filters_of_mqtt_on_demand(sensors: Delivered) -> None:
    wanted = {("dash", 1), ("dash", 2), ("alarm", 1)}
    of_topics = {one for one in sensors if one[1] in ("dash", "alarm")}
    assert of_topics == {(protocol, *one) for protocol in BY_CONTENT for one in wanted}


def test_identifiers_of_64_bits_are_compared_exactly(sensors: Delivered) -> None:
    wanted = {("S", 3), ("T", 4), ("T", 5), ("T", 6)}
    of_content = {one for one in sensors if one[1] in ("S", "T")}
    assert of_content == {(protocol, *one) for protocol in BY_CONTENT for one in wanted}


def test_without_the_key_filters_are_names_and_that_is_told(tmp_path: Path, sail: Session) -> None:
    text = FILTERS.replace("PROTOCOL", "forwarding").replace("  topics: mqtt\n", "")
    assert delivered(tmp_path, sail, text) == {("forwarding", "alarm", 1)}
    told = cli("validate", tmp_path / "s.yaml")
    assert "workload: subscriptions to 'sensors/#', 'sensors/+/temp' match a topic of just that name" in told.stdout


@pytest.mark.parametrize("protocol", ["ginger", "skipring", "repository"])
def test_protocols_of_topics_refuse_filters(tmp_path: Path, protocol: str) -> None:
    text = FILTERS.replace("PROTOCOL", protocol)
    if protocol == "skipring":
        text = re.sub(r"overlay:\n.*\n.*\n", "overlay: {nodes: {count: 3}}\n", text)
        text = text.replace("at: dash", "at: N1").replace("at: alarm", "at: N2").replace("at: sensor", "at: N3")
    if protocol == "repository":
        text = text.replace("overlay:", "overlay:\n  servers: [{name: R, at: b2}]")
    (tmp_path / "s.yaml").write_text(text)
    found = cli("validate", tmp_path / "s.yaml")
    assert found.exit_code == 64
    assert "topic filter 'sensors/#'" in found.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"sensors/#"', '"sensors#"', "subscriptions[0].topic: the topic filter 'sensors#' has the level 'sensors#'"),
        ("topic: sensors/2/temp", "topic: sensors/+/temp", "the topic 'sensors/+/temp' has a wildcard"),
    ],
)
def test_topics_of_another_form_than_that_of_mqtt_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in FILTERS
    (tmp_path / "s.yaml").write_text(FILTERS.replace("PROTOCOL", "forwarding").replace(old, new))
    found = cli("validate", tmp_path / "s.yaml")
    assert found.exit_code == 64
    assert words.rpartition(": ")[2] in found.stderr


def test_names_and_topics_are_compared_in_their_composed_form(tmp_path: Path, sail: Session) -> None:
    composed, apart = "Z\u00fcrich", "Zu\u0308rich"
    (tmp_path / "net.csv").write_text(f"src,dst\n{apart},Bern\n{composed},Basel\n", encoding="utf-8")
    (tmp_path / "p.csv").write_text(f"node,topic,round\n{apart},{composed},25\nBern,{apart},26\n", encoding="utf-8")
    found = delivered(tmp_path, sail, f"""
name: composed
protocol: {{name: forwarding}}
overlay: {{file: {{path: net.csv}}}}
workload:
  subscriptions:
    - {{at: {composed}, topic: {apart}}}
    - {{at: Bern, topic: {composed}}}
    - {{at: Basel, where: topic = {apart}}}
  publications: {{file: {{path: p.csv, node: node, topic: topic, round: round}}}}
time: {{rounds: 100}}
""")  # fmt: skip
    # Call 1 of both publishers is a subscription.
    assert found == {("forwarding", name, 2) for name in (composed, "Bern", "Basel")}
    with rt.open_store(tmp_path / "store", sail.spark) as result:
        assert result.table("delivery").count() == 6
    told = cli("why", tmp_path / "store", "--run", 0, "--subscriber", "Basel", "--source", apart, "--seq", 1)
    assert (told.exit_code, told.stderr) == (0, "")


def test_the_names_of_a_matrix_and_of_graphml_are_composed(tmp_path: Path) -> None:
    composed, apart = "Z\u00fcrich", "Zu\u0308rich"
    (tmp_path / "m.csv").write_text(f",{apart},Bern\n{composed},0,8\nBern,8,0\n", encoding="utf-8")
    (tmp_path / "s.yaml").write_text(f"""
name: matrix
protocol: {{name: forwarding}}
overlay: {{links: [[{composed}, Bern]], latency: {{matrix: m.csv}}}}
workload: {{subscriptions: [{{at: {apart}, topic: a}}], publications: [{{at: Bern, round: 9, topic: a}}]}}
time: {{rounds: 50, round_ms: 1}}
""", encoding="utf-8")  # fmt: skip
    assert cli("validate", tmp_path / "s.yaml").exit_code == 0


BLANK = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="Latitude" attr.type="string"/>
  <key id="d1" for="node" attr.name="Longitude" attr.type="string"/>
  <graph edgedefault="undirected">
    <node id="A"><data key="d0">48.1</data><data key="d1">11.6</data></node>
    <node id="B"><data key="d0">48.1</data><data key="d1"> </data></node>
    <edge source="A" target="B"/>
  </graph>
</graphml>
"""


def test_a_report_opens_where_a_coordinate_is_blank(tmp_path: Path, sail: Session) -> None:
    (tmp_path / "net.graphml").write_text(BLANK)
    found = delivered(tmp_path, sail, """
name: blank
protocol: {name: forwarding}
overlay: {file: {path: net.graphml}}
workload: {subscriptions: [{at: B, topic: a}], publications: [{at: A, round: 25, topic: a}]}
time: {rounds: 100, round_ms: 1}
""")  # fmt: skip
    assert found == {("forwarding", "B", 1)}
    told = cli("report", tmp_path / "store")
    assert (told.exit_code, (tmp_path / "store" / "report.html").exists()) == (0, True), told.stderr
