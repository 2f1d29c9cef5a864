"""Jars are fetched once, and what is kept is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from pipelines.engines import jars
from pipelines.errors import EngineError

FIRST, SECOND = jars.GRAPHFRAMES


class Repository:
    """Stands for the process that fetches: notes what it is asked for, and lacks some artifacts."""

    def __init__(self, *lacks: str, cause: str = "unresolved dependency: it#it;1: not found") -> None:
        self.lacks, self.cause = lacks, cause
        self.asked: list[str] = []

    def __call__(self, graphframes: str, excluded: str, ivy: str) -> str | None:
        self.asked.append(graphframes)
        if graphframes in self.lacks:
            return self.cause
        folder = Path(ivy, "jars")
        folder.mkdir()
        for name in ("delta.jar", "graphframes.jar"):
            (folder / name).write_text(graphframes)
        return None


def _jars(monkeypatch: pytest.MonkeyPatch, repository: Repository, cache: Path) -> tuple[list[Path], list[str]]:
    said: list[str] = []
    monkeypatch.setattr(jars, "_run_child", repository)
    monkeypatch.setattr(jars, "cache_folder", lambda: cache)
    return jars.engine_jars(said.append), said


def test_they_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository()
    first, said = _jars(monkeypatch, repository, tmp_path)
    assert [jar.name for jar in first] == ["delta.jar", "graphframes.jar"]
    assert all(jar.is_file() for jar in first)
    assert len(said) == 1
    assert _jars(monkeypatch, repository, tmp_path) == (first, [])
    assert repository.asked == [FIRST]


def test_the_second_artifact_stands_in_where_the_first_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(FIRST)
    found, _ = _jars(monkeypatch, repository, tmp_path)
    assert repository.asked == [FIRST, SECOND]
    assert {jar.read_text() for jar in found} == {SECOND}


def test_a_list_with_a_missing_jar_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository()
    _jars(monkeypatch, repository, tmp_path)[0][0].unlink()
    again, _ = _jars(monkeypatch, repository, tmp_path)
    assert all(jar.is_file() for jar in again)
    assert len(repository.asked) == 2


def test_a_broken_list_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository()
    _jars(monkeypatch, repository, tmp_path)
    next(tmp_path.glob("*.json")).write_text('["set-')
    assert len(_jars(monkeypatch, repository, tmp_path)[0]) == 2


def test_the_process_that_is_second_takes_the_jars_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find nothing and fetch; the other one ends while this one fetches."""
    other = Repository()

    class Slow(Repository):
        def __call__(self, graphframes: str, excluded: str, ivy: str) -> str | None:
            self.others = _jars(monkeypatch, other, tmp_path)[0]
            return super().__call__(graphframes, excluded, ivy)

    slow = Slow()
    found, _ = _jars(monkeypatch, slow, tmp_path)
    assert found == slow.others
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".json"]


def test_nothing_fetched_leaves_nothing_and_names_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(FIRST, SECOND)
    with pytest.raises(EngineError, match=r"it#it;1: not found.*--engine local"):
        _jars(monkeypatch, repository, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_delta_no_second_artifact_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(FIRST, SECOND, cause="unresolved dependency: io.delta#delta-spark;4: not found")
    with pytest.raises(EngineError, match=r"io\.delta"):
        _jars(monkeypatch, repository, tmp_path)
    assert repository.asked == [FIRST]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    told = f"cannot be stored in {taken}/jars: Not a directory; correct the cause .on Linux, variable XDG_CACHE_HOME"
    with pytest.raises(EngineError, match=told):
        _jars(monkeypatch, Repository(), taken / "jars")
    with pytest.raises(EngineError, match=told):
        jars.bucket_jars("s3a", lambda _: None)


@pytest.mark.parametrize(
    ("spark", "delta"), [("4.0.1", "4.0.0"), ("4.1.1", "4.1.0"), ("4.1.4", "4.3.0"), ("4.2.0", "4.4.0"), ("4.1.2", "5")]
)
def test_delta_lake_that_runs_on_spark_is_taken(spark: str, delta: str) -> None:
    jars.check_delta(spark, delta)


@pytest.mark.parametrize(("spark", "delta"), [("4.1.0", "4.0.1"), ("4.1.2", "4.2.0"), ("4.2.0", "4.3.1")])
def test_older_delta_lake_is_refused(spark: str, delta: str) -> None:
    with pytest.raises(EngineError, match=f"delta-spark {delta} does not run on pyspark {spark}, .* or newer; run pip"):
        jars.check_delta(spark, delta)


@pytest.mark.parametrize(("hadoop", "sdk"), [("3.4.1", "2.24.6"), ("3.4.2", "2.29.52"), ("3.5.0", "2.35.4")])
def test_the_client_of_buckets_is_that_of_sparks_hadoop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hadoop: str, sdk: str
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"hadoop-client-api-{hadoop}.jar").touch()
    monkeypatch.setattr(pyspark, "__path__", [str(tmp_path)])
    monkeypatch.setattr(jars, "cache_folder", lambda: tmp_path / "cache")
    fetched: list[str] = []

    def fetch(packages: str, excluded: str, ivy: str) -> None:
        fetched.extend(packages.split(","))
        Path(ivy, "jars").mkdir()

    monkeypatch.setattr(jars, "_run_child", fetch)
    jars.bucket_jars("s3a", lambda _: None)
    assert fetched[:2] == [f"org.apache.hadoop:hadoop-aws:{hadoop}", f"software.amazon.awssdk:s3:{sdk}"]


def test_the_cause_is_one_line() -> None:
    ivy = (
        ":: problems summary ::\n\tmodule not found: a#b;1\n"
        "java.lang.RuntimeException: [unresolved dependency: a#b;1: not found]\n\tat org.apache.spark\n"
    )
    assert jars._cause(ivy) == "unresolved dependency: a#b;1: not found"
    assert jars._cause("start\njava.io.IOException: disk full\n\tat a.b\n") == "java.io.IOException: disk full"
    assert jars._cause("") == "Spark ended without a message"
    assert (
        jars.error_line(["", "Invalid maximum heap size: -Xmxa", "Error: no JVM"]) == "Invalid maximum heap size: -Xmxa"
    )
