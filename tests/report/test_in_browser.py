"""Reports in a real browser: what a page shows is what SQL says, nothing is asked for, and texts do no harm."""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.browser import Opened, browser, chromium, keep, opened

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.hunting.findings import Hunt, HuntFinding, page
from pipelines.report.page import PROGRAMS
from pipelines.report.summary import run_rows, summary
from pipelines.result import Result

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no Chromium: apt-get install chromium"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="no Playwright: pip install playwright"),
]
HOSTILE = "<script>alert('x')</script>"
QUOTED = "\"Q' & 🐇"
STUDY = {
    "name": "study",
    "protocol": {"name": "delta"},
    "overlay": {"links": [[HOSTILE, "A"], ["A", QUOTED], ["A", "B"]]},
    "workload": {
        "subscriptions": [{"at": QUOTED, "topic": HOSTILE}, {"at": "B", "topic": HOSTILE}],
        "publications": [
            {"at": HOSTILE, "round": at, "topic": HOSTILE, "content": {"</script>": "<img src=x>"}} for at in (20, 24)
        ],
    },
    "faults": [{"kind": "crash", "node": "A", "round": 22}],
    "time": {"rounds": 60},
    "runs": {"seeds": [1, 2], "grid": {"protocol.delta": [0, 1]}},
}
SHIPPED = {"quickstart": 20, "beyond_delta": 20, "bank": 50}
"""Scenarios, with the rounds between commits."""
PAGES = ("verdict", "replay", "space-time", "measures", "losses")
DOWN = """
select count(1) as n from node_recovery
where run_id = 0 and crash_round <= {0} and (recovery_round is null or recovery_round > {0})
"""
FLYING = """
select count(1) as n from sent_message where run_id = 0 and src <> dst
and sent_round <= {0} and (due_round > {0} or fate = 'in_flight')
"""
DELIVERED = "select count(1) as n from delivery where run_id = 0 and round <= {0}"
JUMPS = {
    "crash": "select min(round) as n from fault_event where run_id = 0 and kind = 'crash' and round > 0",
    "recovery": "select min(round) as n from fault_event where run_id = 0 and kind = 'recovery' and round > 0",
    "loss": "select min(due_round) as n from sent_message where run_id = 0 and src <> dst and fate like 'lost%'",
    "violation": "select min(round) as n from violation where run_id = 0 and round > 0",
}
RING = {
    "name": "ring",
    "protocol": {"name": "skipring"},
    "overlay": {"nodes": {"count": 6}},
    "workload": {"subscriptions": [{"at": f"N{number}", "topic": "news"} for number in range(1, 7)]},
    "time": {"rounds": 120},
}
HELD = """
select count(1) as n from held_edge where run_id = 0 and round <= {0} and (until_round is null or until_round > {0})
"""


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with browser() as found:
        yield found


def made(sail: Session, folder: Path, scenario: Any, *overrides: str, commit_every: int = 5) -> Result:
    result = rt.run(scenario, spark=sail.spark, store=folder / "store", overrides=overrides, commit_every=commit_every)
    result.report(runs=[0] if len(result.runs) > 1 else [], out=folder / "report.html")
    return result


@pytest.fixture(scope="module", params=SHIPPED)
def shipped(
    request: pytest.FixtureRequest, sail: Session, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return made(sail, folder, request.param, commit_every=SHIPPED[request.param]), folder / "report.html"


@pytest.fixture(scope="module")
def study(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("study")
    result = rt.run(STUDY, spark=sail.spark, store=folder / "store", commit_every=4)
    result.report(out=folder / "report.html")
    return result, folder / "report.html"


def shown(found: Opened) -> list[int]:
    return [int(found.text(f"#{name}").replace(",", "")) for name in ("n-down", "n-flying", "n-delivered")]


def asked(result: Result, round_: int) -> list[int]:
    return [result.sql(text.format(round_)).collect()[0].n for text in (DOWN, FLYING, DELIVERED)]


def test_every_page_opens_without_a_complaint_or_a_request(shipped: tuple[Result, Path], started: Any) -> None:
    result, file = shipped
    assert file.stat().st_size < 6e6
    name = re.sub(r"\W", "", file.parent.name)
    with opened(started, file) as found:
        assert result.verdict in found.text("#sentence")
        for page in PAGES:
            found.show(f"{page}/run=0")
            assert found.page.is_visible(f"section#{page}")
            assert [one for one in PAGES if found.page.is_visible(f"section#{one}")] == [page]
            keep(found, f"{name}-{page}")
        found.show("measures/run=0")
        found.page.locator("#measures svg.marks").nth(3).wait_for()
        assert (found.complaints, found.requests) == ([], [])


def test_a_round_shows_what_sql_says(shipped: tuple[Result, Path], started: Any) -> None:
    result, file = shipped
    last = result.runs[0].rounds or 0
    with opened(started, file) as found:
        for round_ in sorted({0, 1, last // 3, last // 2, 30 if last >= 30 else last, last}):
            found.show(f"replay/run=0&round={round_}")
            assert (round_, shown(found)) == (round_, asked(result, round_))
        for kind, text in JUMPS.items():
            [event] = result.sql(text).collect()
            found.page.keyboard.press("Home")
            assert found.page.is_disabled(f"[data-jump={kind}]") == (event.n is None)
            if event.n is not None:
                found.page.click(f"[data-jump={kind}]")
                assert (kind, found.page.input_value("#round")) == (kind, str(event.n))


def test_buttons_keys_and_clicks(study: tuple[Result, Path], started: Any) -> None:
    result, file = study
    with opened(started, file) as found:
        page = found.page
        found.show("replay/run=0&round=20")
        page.keyboard.press("ArrowRight")
        assert page.input_value("#round") == "21"
        page.click("#step")
        assert found.text("#n-down") == "1"
        page.click("#back")
        page.keyboard.press("c")
        assert page.input_value("#round") == "22"
        page.keyboard.press("Home")
        page.click("[data-jump=loss]")
        [lost] = result.sql("select min(due_round) as n from message where run_id = 0 and fate like 'lost%'").collect()
        assert page.input_value("#round") == str(lost.n)
        page.keyboard.press("End")
        assert page.input_value("#round") == str(result.runs[0].rounds)
        page.locator("#overlay g.node", has_text=QUOTED).first.click()
        assert QUOTED in found.text("#detail h2")
        assert "state_routing_entry" in found.text("#detail")
        [node] = [
            row.node_id for row in result.sql("select * from node where run_id = 0").collect() if row.name == QUOTED
        ]
        held = f"select count(1) as n from state_routing_entry where run_id = 0 and node_id = {node}"
        n_rows = result.sql(held).collect()[0].n
        assert n_rows > 0
        assert f"state_routing_entry, {n_rows} rows" in found.text("#detail")
        found.show("replay/run=0&round=20")
        page.locator("#overlay .message").first.dispatch_event("click")
        assert "sent in round" in found.text("#detail")
        found.show("replay/run=0&round=21")
        page.locator("#flying summary").focus()
        page.keyboard.press("Enter")
        page.locator("#flying button.row").first.focus()
        page.keyboard.press("Enter")
        assert "due in round" in found.text("#detail")
        page.locator("#overlay g.node").first.focus()
        page.keyboard.press("Enter")
        assert "in round 21" in found.text("#detail h2")
        found.show("replay/run=0&round=5")
        page.click("#play")
        page.wait_for_function("document.getElementById('round').value > 5")
        assert page.get_attribute("#play", "aria-pressed") == "true"
        page.click("#play")
        assert page.get_attribute("#play", "aria-pressed") == "false"
        assert (found.complaints, found.requests) == ([], [])


def test_names_and_contents_do_no_harm(study: tuple[Result, Path], started: Any) -> None:
    _, file = study
    with opened(started, file) as found:
        for page in (*PAGES, "studies"):
            found.show(f"{page}/run=0")
        found.page.wait_for_timeout(300)
        found.show("replay/run=0&round=20")
        assert HOSTILE in found.text("#events")
        assert found.page.locator("main script, main img, main b").count() == 0
        assert found.page.locator("body > script").count() == 2 + len(PROGRAMS)
        assert (found.complaints, found.requests) == ([], [])


def test_a_picture_is_saved_as_svg(study: tuple[Result, Path], started: Any, tmp_path: Path) -> None:
    _, file = study
    with opened(started, file, scheme="dark") as found:
        found.show("space-time/run=0")
        with found.page.expect_download() as saved:
            found.page.click("#st-picture button.save")
        saved.value.save_as(tmp_path / "saved.svg")
        text = (tmp_path / "saved.svg").read_text("utf-8")
        tree = ElementTree.fromstring(text)  # noqa: S314 - made here
        assert "A" in ["".join(one.itertext()) for one in tree.iter() if one.tag.endswith("text")]
        assert "currentColor" not in text
        assert found.complaints == []


def test_a_replay_works_in_the_frame_of_a_notebook(study: tuple[Result, Path], started: Any, tmp_path: Path) -> None:
    result, _ = study
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><title>A notebook</title>{result.replay(0)._repr_html_()}", "utf-8")
    with opened(started, file) as found:
        frame = found.page.frame_locator("iframe")
        frame.locator("#step").click()
        assert frame.locator("#round").input_value() == "1"
        frame.locator("nav a[data-page=losses]").click()
        frame.locator("#losses h3 a").first.click()
        assert frame.locator("#round").input_value() == "22"
        assert (found.complaints, found.requests) == ([], [])


def test_a_ring_is_drawn_as_a_ring(sail: Session, started: Any, tmp_path: Path) -> None:
    with rt.run(RING, spark=sail.spark, store=tmp_path / "store") as result:
        result.report(out=tmp_path / "report.html")
        last = result.runs[0].rounds
        [held] = result.sql(HELD.format(last)).collect()
    with opened(started, tmp_path / "report.html") as found:
        found.show(f"replay/run=0&round={last}")
        assert held.n > 0
        assert found.page.locator("#overlay line.link").count() == held.n
        assert (
            found.page.evaluate("JSON.parse(document.getElementById('data').textContent).replays[0].layout") == "ring"
        )
        keep(found, "ring")
        assert found.complaints == []


def test_the_crash_that_lost_a_publication_is_two_clicks_away(study: tuple[Result, Path], started: Any) -> None:
    _, file = study
    with opened(started, file) as found:
        found.follow("#verdict td a[href^='#losses']")
        assert "A was down (from round 22 on)" in found.text("#losses h3 >> nth=0")
        found.follow("#losses h3 a >> nth=0")
        assert found.page.input_value("#round") == "22"
        assert "A: crash" in found.text("#events")


def test_a_study_has_its_axes_and_its_worst_runs(study: tuple[Result, Path], started: Any) -> None:
    result, file = study
    with opened(started, file) as found:
        found.show("studies/")
        found.page.select_option("#study-y", "n_messages")
        found.page.locator("#study-table th", has_text="n_messages").wait_for()
        [row] = result.sql("select mean from result_summary where run_id = 0 and measure = 'n_messages'").collect()
        assert f"{row.mean:g}" in found.text("#study-table")
        found.page.locator("#study-picture path[aria-roledescription=point]").nth(1).wait_for()
        assert re.search(r"run \d", found.text("#study-table td:last-child >> nth=0"))


def test_many_runs_beyond_the_bound_are_counted_and_told_apart_by_short_names(
    sail: Session, started: Any, tmp_path: Path
) -> None:
    given = {
        "name": "many",
        "protocol": {"name": "forwarding"},
        "overlay": {"links": [["A", "B"], ["B", "C"]]},
        "workload": {
            "subscriptions": [{"at": "C", "topic": "t"}],
            "publications": [{"at": "A", "round": 20, "topic": "t"}],
        },
        "faults": [{"generate": {"kind": "crash", "count": 1, "nodes": ["B"], "rounds": [19, 22], "down": [2, 4]}}],
        "time": {"rounds": 40},
        "runs": {"seeds": {"count": 13}, "grid": {"protocol": [{"name": "epidemic"}, {"name": "forwarding"}]}},
    }
    with rt.run(given, spark=sail.spark, store=tmp_path / "store") as result:
        n_beyond = sum(not run.within_bound for run in result.runs)
        rows = run_rows(result.reader)
        assert summary(result.reader, rows)["common"].keys() < rows[0]["parameters"].keys()
        result.report(out=tmp_path / "report.html")
    assert n_beyond == 26
    with opened(started, tmp_path / "report.html") as found:
        assert found.text("#verdict li.faint") == "and 16 more runs"
        assert "{" not in found.text("#verdict")
        assert found.page.locator("#verdict td", has_text=re.compile("^epidemic$")).count() == 13
        found.show("studies/")
        assert found.page.locator("#study-table td", has_text=re.compile("^epidemic$")).count() == 1
        assert found.complaints == []


def test_the_table_of_runs_is_sorted_filtered_and_linked(study: tuple[Result, Path], started: Any) -> None:
    result, file = study
    with opened(started, file) as found:
        page = found.page
        assert found.text("#run-count") == "4 of 4 runs"
        page.click("#runs th button:has-text('messages')")
        page.click("#runs th button:has-text('messages')")
        rows = result.sql("select run_id from run_summary order by n_messages desc, run_id").collect()
        ids = [int(text.split()[1]) for text in page.locator("#runs tbody td:first-child").all_inner_texts()]
        assert ids == [row.run_id for row in rows]
        page.fill("#run-filter", "delta=1 seed>1")
        assert found.text("#run-count") == "1 of 4 runs"
        [kept] = result.sql("select run_id from result where protocol_delta = 1 and seed > 1").collect()
        assert found.text("#runs tbody td >> nth=0") == f"run {kept.run_id}"
        page.click("#runs tbody button.row")
        assert f"roundtable report {result.store} --run {kept.run_id}" in found.text("#runs tbody td >> nth=0")
        assert found.complaints == []


def test_nodes_are_found_zoomed_and_named_under_the_pointer(study: tuple[Result, Path], started: Any) -> None:
    _, file = study
    with opened(started, file) as found:
        page = found.page
        found.show("replay/run=0&round=20")
        whole = page.get_attribute("#still", "viewBox")
        page.fill("#find", "q'")
        page.keyboard.press("Enter")
        assert QUOTED in found.text("#detail h2")
        page.keyboard.type("c")
        assert page.input_value("#round") == "20", "letters typed into a field are no keys of the replay"
        page.click("#zoom-in")
        zoomed = page.get_attribute("#still", "viewBox")
        assert zoomed != whole
        assert page.get_attribute("#moving", "viewBox") == zoomed
        page.click("#zoom-whole")
        assert page.get_attribute("#still", "viewBox") == whole
        page.locator("#overlay g.node", has_text="B").first.hover()
        assert found.text("#hovered") == "B: VALID_JOINED"
        assert found.complaints == []


def test_runs_are_compared_in_one_chart(study: tuple[Result, Path], started: Any, tmp_path: Path) -> None:
    result, file = study
    with opened(started, file, scheme="dark") as found:
        found.show("overlaid/")
        found.page.locator("#overlaid-picture svg.marks").wait_for()
        found.page.fill("#overlaid-runs", "0, 2 to 3")
        found.page.select_option("#overlaid-what", "deliveries")
        found.page.locator("#overlaid-said", has_text="Deliveries of runs 0, 2, 3, of 4 runs.").wait_for()
        with found.page.expect_download() as saved:
            found.page.locator("#overlaid-picture button.save").nth(2).click()
        saved.value.save_as(tmp_path / "data.csv")
        with (tmp_path / "data.csv").open(newline="") as text:
            shown = {(int(row["run"]), int(row["x"])): int(row["mean"]) for row in csv.DictReader(text)}
        rows = result.sql("select run_id, round, count(1) as n from delivery group by run_id, round").collect()
        expected = {(row.run_id, row.round): row.n for row in rows if row.run_id in (0, 2, 3)}
        assert {key: n for key, n in shown.items() if n} == expected
        with found.page.expect_download() as saved:
            found.page.locator("#overlaid-picture button.save").nth(1).click()
        saved.value.save_as(tmp_path / "runs.png")
        assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")
        keep(found, "overlaid")
        assert found.complaints == []


BROKEN_WORDS = """() => [...document.querySelectorAll("section:not([hidden]) th")].filter((head) => {
  const measure = document.createElement("canvas").getContext("2d");
  const style = getComputedStyle(head);
  measure.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const words = head.textContent.split(/\\s|(?<=_)/);
  const longest = Math.max(...words.map((word) => measure.measureText(word).width));
  return head.clientWidth > 0 && head.clientWidth + 1 < longest;
}).map((head) => head.textContent)"""
"""Titles of columns that are narrower than their longest word."""
TICKS = """() => [...document.querySelectorAll("#measures .role-axis-label text")].map((one) => one.textContent)"""


FAINT = """() => {
  const parts = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const shade = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * shade(r) + 0.7152 * shade(g) + 0.0722 * shade(b);
  const probe = document.body.appendChild(document.createElement("div"));
  probe.style.background = "Canvas";
  const canvas = parts(getComputedStyle(probe).backgroundColor);
  probe.remove();
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return canvas;
  };
  const isText = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  return [...document.querySelectorAll("nav *, main *")]
    .filter((one) => one.checkVisibility() && isText(one) && !one.closest("svg, style, option, :disabled"))
    .map((one) => {
      const [low, high] = [light(parts(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => a - b);
      return [(high + 0.05) / (low + 0.05), `${one.tagName}: ${one.textContent.slice(0, 40)}`];
    })
    .filter(([ratio]) => ratio < 4.5)
    .map(([ratio, text]) => `${text} (${ratio.toFixed(1)})`);
}"""
"""Texts whose contrast with what is behind them is below 4.5, the least of WCAG 2.2, level AA."""


@pytest.mark.parametrize("width", [400, 1280, 2560])
def test_pages_use_the_width_and_the_colours_of_their_window(
    study: tuple[Result, Path], started: Any, width: int
) -> None:  # fmt: skip
    """The page opens in the dark scheme; each part of the page is then checked in both schemes."""
    _, file = study
    with opened(started, file, width, "dark") as found:
        for page in (*PAGES, "studies", "overlaid"):
            found.show(f"{page}/run=0&round=22" if page == "replay" else f"{page}/run=0")
            if page in ("measures", "studies", "overlaid", "space-time"):
                found.page.locator(f"#{page} svg.marks").first.wait_for()
            for scheme in ("dark", "light"):
                found.page.emulate_media(color_scheme=scheme)
                assert found.page.evaluate("document.documentElement.scrollWidth") <= width, (page, scheme)
                assert found.page.evaluate(BROKEN_WORDS) == [], (page, scheme)
                assert found.page.evaluate(FAINT) == [], (page, scheme)
                keep(found, f"width-{page}-{width}-{scheme}")
            found.page.emulate_media(color_scheme="dark")
        for name in ("#overlaid-picture", "#study-picture"):
            found.show("overlaid/" if "overlaid" in name else "studies/")
            found.page.wait_for_timeout(100)
            box = found.page.locator(f"{name} svg.marks").bounding_box()
            assert box["width"] > 0.9 * (width - 50), name
        found.show("measures/run=0")
        found.page.locator("#measure-latency button.save").first.wait_for()
        numbers = [text for text in found.page.evaluate(TICKS) if text.replace(".", "").isdigit()]
        assert numbers
        assert all("." not in text for text in numbers)
        found.page.emulate_media(media="print")
        assert not found.page.is_visible("nav")
        assert not found.page.is_visible("#jumps")
        assert found.complaints == []


@pytest.mark.parametrize("width", [80, 320, 1280])
def test_the_page_of_a_hunt_is_not_wider_than_its_window(started: Any, tmp_path: Path, width: int) -> None:
    """A scenario's name is one word of up to 100 letters. Only tables scroll sideways."""
    name = "n" * 100
    lost = HuntFinding("exactly_once", f"{name} was down", (f"{name} crashes",), 1, 1, {}, "1 fault", tmp_path / name)
    found = Hunt(
        name, "delta", "guided", [lost], {tmp_path / name: ["exactly_once"]}, {name: name}, 1, 1, 0, 1, 0, 0,
        frozenset({f"status {name}", "verdict valid"}), [name], 1.0,
    )  # fmt: skip
    file = tmp_path / "hunt.html"
    file.write_text(page(found))
    with opened(started, file, width) as shown:
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        keep(shown, f"hunt-{width}")


@pytest.mark.parametrize(("width", "scheme"), [(80, "light"), (320, "dark"), (4000, "light")])
def test_no_page_is_wider_than_its_window(study: tuple[Result, Path], started: Any, width: int, scheme: str) -> None:
    _, file = study
    with opened(started, file, width, scheme) as found:
        for page in PAGES:
            found.show(f"{page}/run=0")
            assert found.page.evaluate("document.documentElement.scrollWidth") <= width, page
            keep(found, f"study-{page}-{width}-{scheme}")
