"""``roundtable init``: a scenario for the user's own files, which runs as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from support.commands import cli

OVERLAYS = Path(__file__).parents[2] / "datasets" / "overlays"
QUOTES = Path(__file__).parents[2] / "datasets" / "workloads" / "quotes.padres"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_scenario_without_files_runs(here: Path) -> None:
    made = cli("init")
    assert (made.exit_code, made.stderr) == (0, "")
    text = Path("scenario.yaml").read_text()
    schema = text.partition("\n")[0].removeprefix("# yaml-language-server: $schema=")
    assert json.loads((here / schema).read_text())["title"] == "Roundtable scenario"
    few = ("--set", "runs={seeds: [1]}", "--set", "overlay.generate.nodes=5", "--set", "runs.grid.protocol.delta=[0,1]")
    result = cli("run", "scenario.yaml", "--json", "--store", "store", *few)
    *_, first, second, verdict = map(json.loads, result.stdout.splitlines())
    assert [run["parameters"]["protocol.delta"] for run in (first, second)] == [0, 1]
    assert first["n_publications"] > 10
    assert verdict["verdict"] == "valid"
    assert "already exists" in cli("init").stderr
    assert cli("init").exit_code == 64


@pytest.mark.parametrize("given", ["overlay", "subscriptions", "quotes"])
def test_an_overlay_of_two_nodes_has_two_publishers(here: Path, given: str) -> None:
    """Three are drawn from larger overlays."""
    Path("links.csv").write_text("source,target\nA,B\n")
    Path("subscriptions.csv").write_text("broker,topic\nA,news\nB,sports\n")
    Path("quotes.padres").write_text("[class,'STOCK'],[symbol,'YHOO'],[open,18.37],[volume,100]\n" * 3)
    tables = {"subscriptions": ["--subscriptions", "subscriptions.csv"], "quotes": ["--publications", "quotes.padres"]}
    made = cli("init", "--overlay", "links.csv", *tables.get(given, []))
    assert (made.exit_code, made.stderr) == (0, "")
    assert "nodes: 2" in Path("scenario.yaml").read_text()
    assert cli("validate", "scenario.yaml").exit_code == 0


def test_columns_a_and_b_are_the_ends_of_links(here: Path) -> None:
    (here / "cables.csv").write_text("id,a,b,km\n1,x,y,20\n2,y,z,30\n")
    assert cli("init", "mine.yaml", "--overlay", "cables.csv").exit_code == 0
    file = yaml.safe_load(Path("mine.yaml").read_text())["overlay"]["file"]
    assert (file["src"], file["dst"], file["latency"]) == ("a", "b", "km")


@pytest.mark.parametrize(
    ("overlay", "settings"),
    [
        ("campus.csv", {"src": "from", "dst": "to", "latency": "delay_ms", "latency_unit": "ms"}),
        ("harbours.graphml", {}),
    ],
)
def test_columns_of_the_files_are_found(here: Path, overlay: str, settings: dict[str, str]) -> None:
    (here / "s.csv").write_text("user,artistID\nx,1\ny,2\n")
    (here / "p.csv").write_text("node,topic,round,price\nz,1,20,3.5\n")
    made = cli(
        "init", "mine.yaml", "--overlay", OVERLAYS / overlay, "--subscriptions", "s.csv", "--publications", "p.csv"
    )
    assert (made.exit_code, made.stderr) == (0, "")
    written = yaml.safe_load(Path("mine.yaml").read_text())
    file = written["overlay"]["file"]
    assert (here / file.pop("path")).resolve() == (OVERLAYS / overlay).resolve()
    assert file == settings
    assert written["workload"]["subscriptions"]["file"] == {
        "path": "s.csv", "node": "user", "topic": "artistID", "nodes": "all",
    }  # fmt: skip
    assert written["workload"]["publications"]["file"] == {
        "path": "p.csv", "node": "node", "topic": "topic", "round": "round", "nodes": "all",
    }  # fmt: skip
    assert cli("validate", "mine.yaml").exit_code == 0


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_the_column_of_nodes_is_the_one_with_nodes_of_the_overlay(here: Path, form: str) -> None:
    """Titles mislead: ``name`` and ``user`` hold people here, ``channel`` and ``site`` the nodes."""
    Path("o.csv").write_text("src,dst\nOslo,Bergen\nBergen,Bodo\n")
    subscriptions = {"name": ["Ada", "Bob", "Cy"], "channel": ["Oslo", "Bodo", "Bodo"], "class": ["a", "b", "a"]}
    publications = {"user": ["Eve", "Oslo"], "topic": ["a", "b"], "site": ["Bergen", "Oslo"], "round": ["20", "30"]}
    for name, columns in (("s", subscriptions), ("p", publications)):
        if form == "parquet":
            pq.write_table(pa.table(columns), f"{name}.{form}")
        else:
            rows = [columns.keys(), *zip(*columns.values(), strict=True)]
            delimiter = "\t" if form == "tsv" else ","
            Path(f"{name}.{form}").write_text("".join(f"{delimiter.join(row)}\n" for row in rows))
    made = cli("init", "m.yaml", "--overlay", "o.csv", "--subscriptions", f"s.{form}", "--publications", f"p.{form}")
    assert (made.exit_code, made.stderr) == (0, "")
    workload = yaml.safe_load(Path("m.yaml").read_text())["workload"]
    assert workload["subscriptions"]["file"] == {"path": f"s.{form}", "node": "channel", "topic": "class"}
    assert workload["publications"]["file"] == {
        "path": f"p.{form}", "node": "site", "topic": "topic", "round": "round",
    }  # fmt: skip
    assert cli("init", "t.yaml", "--overlay", "o.csv", "--publications", f"p.{form}").stderr == ""
    topics = yaml.safe_load(Path("t.yaml").read_text())["workload"]["subscriptions"]["file"]
    assert (topics["node"], topics["topic"]) == ("topic", "topic")


def test_columns_of_times_are_found(here: Path) -> None:
    Path("o.csv").write_text("src,dst\nOslo,Bergen\nBergen,Bodo\n")
    Path("s.csv").write_text("broker,topic,at_ms,until_ms\nBodo,a,0,5000\n")
    Path("p.csv").write_text("broker,topic,Timestamp\nOslo,a,2024-03-01T10:00:01Z\n")
    Path("n.csv").write_text("broker,topic,reading\nOslo,a,5\nOslo,a,6\n")
    common = ("--overlay", "o.csv", "--subscriptions", "s.csv", "--publications")
    assert cli("init", "timed.yaml", *common, "p.csv").stderr == ""
    timed = yaml.safe_load(Path("timed.yaml").read_text())["workload"]
    assert timed["subscriptions"]["file"].items() >= {"at_ms": "at_ms", "until_ms": "until_ms"}.items()
    assert timed["publications"]["file"]["at_ms"] == "Timestamp"
    assert cli("init", "untimed.yaml", *common, "n.csv").stderr == ""
    untimed = Path("untimed.yaml").read_text()
    assert "No column has the time (round, at_ms)" in untimed
    assert yaml.safe_load(untimed)["workload"]["publications"]["file"]["round"] == 20
    few = ("--set", "runs={seeds: [1]}", "--set", "faults=[]")
    verdict = json.loads(cli("run", "untimed.yaml", "--json", "--quiet", "--store", "n", *few).stdout)
    assert (verdict["verdict"], verdict["wanted_delivered"], verdict["wanted"]) == ("valid", 2, 2)


def test_files_with_semicolons_and_timestamps_make_a_scenario_that_delivers(here: Path) -> None:
    """Round 0 lies before the first timestamp, so the first publication meets subscriptions."""
    Path("o.csv").write_text("src;dst\nOslo;Bergen\nBergen;Bodo\n")
    Path("s.csv").write_text("node;topic;filter\nBodo;prices;price > 10\nOslo;prices;\n")
    Path("p.jsonl").write_text(
        '{"time": "2024-03-01T10:00:00.000Z", "who": "Bergen", "topic": "prices", "price": 12.5}\n'
        '{"time": "2024-03-01T10:00:00.250Z", "who": "Bergen", "topic": "prices", "price": 8.0}\n'
    )
    made = cli("init", "m.yaml", "--overlay", "o.csv", "--subscriptions", "s.csv", "--publications", "p.jsonl")
    assert (made.exit_code, made.stderr) == (0, "")
    written = yaml.safe_load(Path("m.yaml").read_text())
    assert written["time"]["origin"] == "2024-03-01T09:59:59.800Z"
    assert written["workload"]["subscriptions"]["file"]["where"] == "filter"
    few = ("--set", "runs={seeds: [1]}", "--set", "faults=[]")
    verdict = json.loads(cli("run", "m.yaml", "--json", "--quiet", "--store", "m", *few).stdout)
    assert (verdict["verdict"], verdict["wanted_delivered"], verdict["wanted"]) == ("valid", 3, 3)


def test_what_is_drawn_matches_what_is_given(here: Path) -> None:
    (here / "s.csv").write_text("user,topic\nx,news\ny,sport\n")
    (here / "p.csv").write_text("node,topic,round\nz,news,20\n")
    for name, option in (("s", "--subscriptions"), ("p", "--publications")):
        assert cli("init", f"{name}.yaml", option, f"{name}.csv").stderr == ""
        few = ("--set", "runs={seeds: [1]}", "--set", "overlay.generate.nodes=4", "--set", "faults=[]")
        lines = cli("run", f"{name}.yaml", "--json", "--store", name, *few).stdout.splitlines()
        verdict = json.loads(lines[-1])
        assert (verdict["verdict"], verdict["wanted_delivered"]) == ("valid", verdict["wanted"])
        assert verdict["wanted"] > 0


def test_quotes_are_published_by_nodes_that_are_drawn(here: Path) -> None:
    assert cli("init", "q.yaml", "--publications", QUOTES).stderr == ""
    assert yaml.safe_load(Path("q.yaml").read_text())["workload"]["publications"]["file"]["nodes"] == 3


def test_files_that_do_not_fit_are_told(here: Path) -> None:
    (here / "one.csv").write_text("a\n1\n")
    (here / "bad.graphml").write_text("<graphml")
    assert "a link needs two ends" in cli("init", "a.yaml", "--overlay", "one.csv").stderr
    assert "cannot be read" in cli("init", "a.yaml", "--overlay", "bad.graphml").stderr
    missing = "none.graphml cannot be read: No such file or directory; check its name"
    assert missing in " ".join(cli("init", "a.yaml", "--overlay", "none.graphml").stderr.split())
    (here / "latin.csv").write_bytes("topic\nK\xf6ln\n".encode("latin-1"))
    assert cli("init", "a.yaml", "--subscriptions", "latin.csv").stderr.count("latin.csv") == 1
    assert "subscriptions need one with the topic" in cli("init", "a.yaml", "--subscriptions", "one.csv").stderr
    assert cli("init", "a.yaml", "--subscriptions", "none.csv").exit_code == 64
    assert not Path("a.yaml").exists()
    made = cli("init", "a.yaml", "--overlay", "none.graph")
    assert (made.exit_code, "edit it before running" in made.stderr) == (0, True)
    assert "no file 'none.graph'" in made.stderr


def file_of(scenario: str, part: str = "overlay") -> dict[str, object]:
    """Returns the settings of the file that a part of a scenario names."""
    parts = yaml.safe_load(Path(scenario).read_text())
    found: dict[str, object] = (parts[part] if part == "overlay" else parts["workload"][part])["file"]
    return found


def test_a_scenario_in_another_folder_names_the_files_from_there(here: Path) -> None:
    (here / "net.csv").write_text("from,to\nOslo,Rome\nRome,Bern\n")
    (here / "sub").mkdir()
    assert cli("init", "sub/own.yaml", "--overlay", "net.csv").exit_code == 0
    assert file_of("sub/own.yaml") == {"path": "../net.csv", "src": "from", "dst": "to"}
    assert cli("validate", "sub/own.yaml").exit_code == 0
    nowhere = cli("init", "none/own.yaml", "--overlay", "net.csv")
    assert (nowhere.exit_code, "folder 'none' does not exist; create it" in nowhere.stderr) == (64, True)


@pytest.mark.parametrize("links", ["Oslo,Bern\nBern,Prague\nPrague,Rome\n", "1,2\n2,3\n3,4\n"])
def test_the_first_line_of_a_list_without_a_header_is_a_link(here: Path, links: str) -> None:
    (here / "net.csv").write_text(links)
    made = cli("init", "1.yaml", "--overlay", "net.csv")
    assert (made.exit_code, "has to be changed" in made.stderr) == (0, False)
    assert file_of("1.yaml") == {"path": "net.csv"}
    assert yaml.safe_load(Path("1.yaml").read_text())["name"] == "1"
    planned = json.loads(cli("plan", "1.yaml", "--json").stdout)
    assert {(one["n_nodes"], one["n_links"]) for one in planned["combinations"]} == {(4, 3)}


def test_a_misspelt_node_is_told_and_no_subscription_is_spread(here: Path) -> None:
    (here / "net.csv").write_text("from,to\nOslo,Rome\nRome,Wien\n")
    (here / "subs.csv").write_text("broker,topic\nRome,alarms\nViena,alarms\n")
    made = cli("init", "a.yaml", "--overlay", "net.csv", "--subscriptions", "subs.csv")
    assert "did you mean 'Wien'?" in made.stderr
    assert "nodes" not in file_of("a.yaml", "subscriptions")
