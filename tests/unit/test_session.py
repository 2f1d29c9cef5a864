"""What a session needs before an engine runs: Java, settings, a scratch folder, jars."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyspark
import pyspark.sql.connect.proto as proto
import pytest
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.engines import classic, jars, names, remote, session, settings
from pipelines.engines.names import Engine, chosen_engine, engine_for
from pipelines.engines.session import Session, open_session
from pipelines.errors import EngineError

BANNERS = {
    'openjdk version "17.0.15" 2025-04-15': 17,
    'java version "1.8.0_392"': 8,
    'openjdk version "21" 2023-09-19': 21,
    'openjdk version "25-ea" 2025-09-16': 25,
    "Error: could not find libjava.so": None,
}


def _fake_java(folder: Path, banner: str) -> None:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(("banner", "version"), BANNERS.items())
def test_the_major_version_is_read_from_each_banner(banner: str, version: int | None) -> None:
    assert names.major_version(banner) == version


@pytest.mark.parametrize("banner", ['openjdk version "17.0.15"', 'openjdk version "21.0.2"'])
def test_java_that_spark_runs_on_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banner: str) -> None:
    _fake_java(tmp_path, banner)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert names.check_java() == names.major_version(banner)


@pytest.mark.parametrize(
    ("banner", "found"), [('openjdk version "11.0.2"', "Java 11"), ('version "25"', "Java 25"), ("", "no Java")]
)
def test_other_java_is_refused_with_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banner: str, found: str
) -> None:
    _fake_java(tmp_path, banner)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=f"{found}.*--engine local") as error:
        names.check_java()
    assert str(tmp_path) in str(error.value)


def test_a_machine_without_java_is_told_of_sail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"PATH has no java.*--engine local"):
        names.check_java()


def test_the_variables_of_the_launcher_name_the_spark_of_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine with a Spark of its own often has SPARK_HOME."""
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    names.check_launch()
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    names.check_launch()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    for home, found in ((tmp_path, "Spark 3.5.1"), (tmp_path / "none", "no Spark")):
        monkeypatch.setenv("SPARK_HOME", str(home))
        with pytest.raises(EngineError, match=f"SPARK_HOME is '{home}', which is {found}; .* unset SPARK_HOME, or"):
            names.check_launch()
    monkeypatch.setenv("SPARK_REMOTE", "sc://server")
    with pytest.raises(EngineError, match="while SPARK_REMOTE is set; unset it, or run with --engine connect"):
        names.check_launch()


@pytest.mark.parametrize("version", ["4.0.1", "4.1.0", "4.1.4", "4.2.0", "4.2.1.dev0"])
def test_releases_of_tested_spark_are_taken(version: str) -> None:
    names.check_spark(version, "the session", "")


@pytest.mark.parametrize("version", ["3.5.7", "4.3.0", "5.0.0", "unknown"])
def test_a_callers_session_of_other_spark_is_refused(version: str) -> None:
    with pytest.raises(EngineError, match=f"the session is Spark {version}; .* 4.0 to 4.2; use a session of a tested"):
        open_session(spark=cast(SparkSession, SimpleNamespace(version=version)))


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_other_installed_spark_starts_no_engine(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    monkeypatch.setattr(session, "running_session", lambda: None)
    with pytest.raises(EngineError, match=r"the installed PySpark is Spark 4\.3\.0; .* to 4\.2; run pip install --upg"):
        open_session(engine)


@pytest.mark.parametrize("extra", ["spark", "local"])
def test_pip_installs_no_spark_that_is_refused(extra: str) -> None:
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (pin,) = (one for one in extras["optional-dependencies"][extra] if one.startswith("pyspark"))
    bounds = re.fullmatch(r"pyspark\[connect\]>=([\d.]+),<=([\d.]+)", pin)
    assert bounds is not None
    for version in bounds.groups():
        names.check_spark(version, "the pin", "")


def test_an_unknown_engine_is_refused_with_the_nearest() -> None:
    with pytest.raises(EngineError, match=r"the engine is .locla.; did you mean 'local'\? allowed: auto, spark, conn"):
        open_session("locla")  # type: ignore[arg-type]  # the error is the point


@pytest.mark.parametrize(
    ("asked", "is_dynamic", "n_partitions"),
    [("auto", False, 5), ("200", False, 5), ("3", False, 3), ("auto", True, os.cpu_count()), ("200", True, 200)],
)
def test_a_callers_session_has_at_most_a_partition_for_each_known_core(
    sail: session.Session, monkeypatch: pytest.MonkeyPatch, asked: str, is_dynamic: bool, n_partitions: int
) -> None:
    """Databricks accepts ``auto``, which no other Spark does."""
    monkeypatch.setattr(session, "is_running", lambda spark: True)
    settings = {"spark.sql.shuffle.partitions": asked, "spark.dynamicAllocation.enabled": str(is_dynamic).lower()}
    conf, context = SimpleNamespace(get=lambda key, *_: settings[key]), SimpleNamespace(defaultParallelism=5)
    spark = SimpleNamespace(version=pyspark.__version__, conf=conf, sparkContext=context)
    with open_session(spark=cast("SparkSession", spark)) as found:
        assert found.partitions == n_partitions
    sail.activate()


@pytest.mark.parametrize(
    ("master", "sent", "n_sent"),
    [("yarn", [], 1), ("yarn", ["other.zip"], 1), ("yarn", ["udfs-0123456789abcdef.zip"], 1), ("local[2]", [], 0),
     ("yarn", ["{archive}"], 0)],
)  # fmt: skip
def test_a_cluster_gets_the_package_of_programs_once(master: str, sent: list[str], n_sent: int) -> None:
    """Spark writes a warning into the log of the driver if a file is sent again. Other versions are sent, too."""
    files: list[str] = []
    archive = session._udfs_archive()
    sent = [f"spark://host:1/files/{name.format(archive=archive.name)}" for name in sent]
    spark = SimpleNamespace(
        sparkContext=SimpleNamespace(master=master, listFiles=sent, startTime=1),
        addArtifacts=lambda file, pyfile: files.append(file),
    )
    Session(cast(SparkSession, spark), "spark", 2, owns=False, scratch=Path()).ship_udfs()
    assert files == [str(archive)] * n_sent


def test_connect_asks_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    with pytest.raises(EngineError, match="name it with --remote or in SPARK_REMOTE"):
        open_session("connect")


@pytest.mark.parametrize("answers", [False, True])
def test_a_server_that_does_not_answer_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: bool
) -> None:
    """Nobody listens; or somebody does, and takes connections without a word."""
    assert remote.ANSWER_SECONDS <= 15
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 0.5)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if answers:
            server.listen()
        url = f"sc://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("SPARK_REMOTE", url)
        with pytest.raises(EngineError, match=f"no Spark Connect server answers at {url} within 0.5 s; check"):
            open_session("connect")
        told = CliRunner().invoke(
            app, ["run", "single_crash", "--engine", "connect", "--remote", url, "--store", str(tmp_path / "store")]
        )
        assert (told.exit_code, f"answers at {url} within 0.5 s" in told.stderr) == (64, True)
        assert not (tmp_path / "store").exists()
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        with pytest.raises(EngineError, match="and the proxy in http_proxy, or add the host to no_proxy"):
            open_session("connect")


def test_sail_is_reached_without_the_proxy_of_the_environment() -> None:
    """Requests to this process would go to the proxy of an office, which does not answer them."""
    program = "from pipelines.engines.session import open_session\nwith open_session('local') as session: print('open')"
    proxy = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://127.0.0.1:9")
    environment = {name: value for name, value in os.environ.items() if name != "no_proxy"} | proxy
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert ran.stdout == "open\n"


def test_the_program_is_imported_without_the_package_of_sail() -> None:
    program = "import sys; sys.modules['pysail'] = None; import pipelines.api, pipelines.cli.app, pipelines.hunting"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_environment_names_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROUNDTABLE_ENGINE", raising=False)
    assert (engine_for(None, "spark"), engine_for("connect", "spark")) == ("spark", "connect")
    monkeypatch.setenv("ROUNDTABLE_ENGINE", "local")
    assert (engine_for(None, "spark"), engine_for("connect", "spark")) == ("local", "connect")
    monkeypatch.setenv("ROUNDTABLE_ENGINE", "locla")
    with pytest.raises(EngineError, match=r"ROUNDTABLE_ENGINE is .locla.; did you mean 'local'\? allowed: auto"):
        engine_for(None, "spark")


@pytest.mark.parametrize(
    ("variables", "running", "found"),
    [
        ({}, "connect", "connect"),
        ({"SPARK_REMOTE": "sc://server"}, None, "connect"),
        ({"PYSPARK_GATEWAY_PORT": "1"}, None, "spark"),
        ({"SPARK_REMOTE": "sc://server"}, "spark", "spark"),
        ({"JAVA_HOME": "/none"}, None, "local"),
    ],
)
def test_auto_takes_the_session_then_a_server_then_java(
    variables: dict[str, str], running: Engine | None, found: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert chosen_engine("auto", running)[0] == found
    assert chosen_engine("local", "spark")[0] == "local"


def test_the_older_name_of_local_is_taken() -> None:
    assert engine_for("sail", "spark") == "local"  # type: ignore[arg-type]


def test_settings_are_read_without_comments(tmp_path: Path) -> None:
    file = tmp_path / "local.conf"
    file.write_text("# a comment\n\nspark.a   1\nspark.b\ttwo words \nspark.empty\n")
    assert settings.read_settings(file) == {"spark.a": "1", "spark.b": "two words"}


def test_rounds_get_the_settings_that_they_rely_on(tmp_path: Path) -> None:
    local = settings.local_settings(tmp_path)
    assert local["spark.sql.adaptive.enabled"] == "false"
    assert local["spark.sql.requireAllClusterKeysForCoPartition"] == "false"
    assert local["spark.sql.shuffle.partitions"] == str(os.cpu_count())
    assert local["spark.sql.warehouse.dir"].startswith(str(tmp_path))


def test_a_file_of_the_working_directory_takes_the_place_of_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "conf" / "spark" / "local.conf"
    own.parent.mkdir(parents=True)
    own.write_text("spark.driver.memory 3g\nspark.sql.shuffle.partitions 7\n")
    monkeypatch.chdir(tmp_path)
    local = settings.local_settings(tmp_path)
    assert (local["spark.driver.memory"], local["spark.sql.shuffle.partitions"]) == ("3g", "7")


def test_the_jvm_suits_the_size_of_the_job_unless_the_user_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = "spark.driver.extraJavaOptions"
    assert "-XX:TieredStopAtLevel=1" in settings.local_settings(tmp_path, is_small=True)[options]
    assert options not in settings.local_settings(tmp_path)
    own = tmp_path / "conf" / "spark" / "local.conf"
    own.parent.mkdir(parents=True)
    own.write_text(f"{options} -Xss8m\n")
    monkeypatch.chdir(tmp_path)
    assert settings.local_settings(tmp_path, is_small=True)[options] == "-Xss8m"


def test_the_heap_is_left_to_a_user_who_chose_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert settings.local_settings(tmp_path)["spark.driver.memory"] == f"{settings.heap_megabytes()}m"
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 2g\n")
    with monkeypatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(tmp_path))
        assert "spark.driver.memory" not in settings.local_settings(tmp_path)
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "2g")
    assert "spark.driver.memory" not in settings.local_settings(tmp_path)


def test_scratch_is_private_and_goes_away() -> None:
    with ExitStack() as closing:
        folder = session.open_scratch(closing)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "relation").write_text("rows")
    assert not folder.exists()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_scratch_goes_away_with_a_process_that_is_ended(end: signal.Signals) -> None:
    program = (
        "import signal, time; from contextlib import ExitStack; from pipelines.engines.session import open_scratch;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"  # background jobs inherit that it is ignored
        "closing = ExitStack(); print(open_scratch(closing), flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdout is not None
    folder = Path(child.stdout.readline().strip())
    assert folder.is_dir()
    deadline = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < deadline:
        child.send_signal(end)  # again and again: Python drops an interrupt that comes while it frees something
        time.sleep(0.2)
    child.communicate(timeout=1)
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not folder.exists()


def test_scratch_goes_away_if_no_process_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(session, "_MEMORY", tmp_path)
    monkeypatch.setattr(session, "_ROOM_BYTES", 0)
    monkeypatch.setattr(subprocess, "Popen", fail)
    with ExitStack() as closing, pytest.raises(BlockingIOError):
        session.open_scratch(closing)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("heeded_signals")
def test_an_interruption_of_the_launch_ends_the_new_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch takes some seconds. Only a launch that is not disturbed names the JVM's process."""
    jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])

    def launch(*_: object) -> SimpleNamespace:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return SimpleNamespace(proc=jvm)

    monkeypatch.setattr(classic, "launch_gateway", launch)
    try:
        with pytest.raises(KeyboardInterrupt):
            classic._launched(SparkConf(loadDefaults=False), {})
        assert jvm.wait(10) == -signal.SIGKILL
    finally:
        jvm.kill()


def test_scratch_lies_elsewhere_where_memory_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MEMORY", tmp_path / "missing")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ExitStack() as closing:
        assert session.open_scratch(closing).parent == tmp_path


MIRRORS = {
    "<mirror><mirrorOf>central</mirrorOf><url>https://mirror.example/m2</url></mirror>": "https://mirror.example/m2/",
    "<mirror><mirrorOf>a, *</mirrorOf><url>https://mirror.example/</url></mirror>": "https://mirror.example/",
    "<mirror><mirrorOf>*,!central</mirrorOf><url>https://mirror.example/</url></mirror>": None,
    "<mirror><mirrorOf>external:http:*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>": None,
    "<mirror><mirrorOf>*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>": None,
    "": None,
}


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://jars.apache.org/SETTINGS/1.2.0"'])
@pytest.mark.parametrize(("mirror", "url"), MIRRORS.items())
def test_the_mirror_of_central_is_found(tmp_path: Path, namespace: str, mirror: str, url: str | None) -> None:
    file = tmp_path / "settings.xml"
    file.write_text(f"<settings{namespace}><mirrors>{mirror}</mirrors></settings>")
    assert jars.mirror_in(file) == url


def test_the_fetching_process_is_told_of_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".m2" / "settings.xml"
    file.parent.mkdir()
    file.write_text(f"<settings><mirrors>{next(iter(MIRRORS))}</mirrors></settings>")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DEFAULT_ARTIFACT_REPOSITORY", raising=False)
    assert jars._environment()["DEFAULT_ARTIFACT_REPOSITORY"] == "https://mirror.example/m2/"
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://chosen.example/")
    assert jars._environment()["DEFAULT_ARTIFACT_REPOSITORY"] == "https://chosen.example/"


SCHEMA, ROWS, END = (
    proto.ExecutePlanResponse(schema=proto.DataType()),
    proto.ExecutePlanResponse(arrow_batch=proto.ExecutePlanResponse.ArrowBatch(row_count=1)),
    proto.ExecutePlanResponse(result_complete=proto.ExecutePlanResponse.ResultComplete()),
)


class Server:
    """A server that gives the answers in ``answers`` one after the other, and counts requests that release one."""

    def __init__(self, *answers: list[proto.ExecutePlanResponse]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.released: list[str] = []

    def unary_unary(self, *_: object) -> Any:
        return lambda request: self.released.append(request.operation_id)

    def ask(self, _: object, request: proto.ExecutePlanRequest) -> list[proto.ExecutePlanResponse]:
        assert request.request_options[0].reattach_options.reattachable
        self.asked.append(request.operation_id)
        return self.answers.pop(0)

    def query(self) -> list[proto.ExecutePlanResponse]:
        request = proto.ExecutePlanRequest(plan=proto.Plan(root=proto.Relation()))
        return [*remote.WholeAnswers(cast(Any, self)).intercept_unary_stream(self.ask, None, request)]


@pytest.mark.parametrize("early", [[], [SCHEMA], [SCHEMA, ROWS]])
def test_a_query_is_repeated_if_its_answer_ends_early(early: list[proto.ExecutePlanResponse]) -> None:
    server = Server(early, [SCHEMA, ROWS, END])
    assert server.query() == [SCHEMA, ROWS, END]
    assert server.released == server.asked
    assert len(set(server.asked)) == 2


def test_an_answer_that_always_ends_early_is_an_error() -> None:
    with pytest.raises(PySparkException, match="ended early 3 times; repeat the query, or use engine 'spark'"):
        Server(*[[SCHEMA]] * 4).query()


def test_commands_are_sent_as_they_are() -> None:
    request = proto.ExecutePlanRequest(plan=proto.Plan(command=proto.Command()))
    interceptor = remote.WholeAnswers(cast(Any, Server()))
    assert [*interceptor.intercept_unary_stream(lambda *_: iter([SCHEMA]), None, request)] == [SCHEMA]
    assert not request.request_options


def test_sail_marks_the_end_of_each_answer(sail: session.Session) -> None:
    assert sail.spark.range(100_000).count() == 100_000
    assert sail.spark.range(0).toArrow().num_rows == 0
    with pytest.raises(PySparkException, match="boom"):
        sail.spark.sql("select case when id = 5 then raise_error('boom') else 1 end as x from range(10)").toArrow()
