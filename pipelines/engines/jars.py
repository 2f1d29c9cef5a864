"""The jars of Delta Lake and GraphFrames: fetched once into the user's cache, then found without network.

The wheels hold no jars. Spark can fetch them at each start, but prints pages and needs the network; so a child process
does that once, and later starts read the list that it wrote.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from pipelines.engines.names import WITHOUT_JAVA
from pipelines.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
import xml.etree.ElementTree as ElementTree

# GraphFrames' own artifact is not in every mirror; Sedona's carries the same classes as far as motifs go.
GRAPHFRAMES = ("io.graphframes:graphframes-spark4_2.13:0.12.3", "org.apache.sedona:sedona-spark-shaded-4.0_2.13:1.8.0")
# What Spark has already, in other versions.
_EXCLUDED = (
    "org.apache.hadoop:*,org.apache.parquet:*,org.apache.logging.log4j:*,org.slf4j:*,org.roaringbitmap:*,"
    "com.fasterxml.jackson.core:*,com.fasterxml.jackson.datatype:*,com.github.luben:*,org.xerial.snappy:*,io.airlift:*,"
    "commons-pool:*,commons-logging:*,com.google.code.findbugs:*,javax.annotation:*,org.locationtech.jts:*"
)
# Hadoop's client of S3 in the version of Spark's Hadoop, and of Amazon's library what it uses: all of it has 600 MB.
_HADOOP, _SDK = "3.4.2", "2.29.52"
_S3 = tuple(f"software.amazon.awssdk:{part}:{_SDK}" for part in ("s3", "s3-transfer-manager", "sts"))
_S3_EXCLUDED = (
    "software.amazon.awssdk:bundle,org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime,"
    "org.apache.hadoop:hadoop-common,org.slf4j:*,software.amazon.encryption.s3:*,io.netty:*,org.wildfly.openssl:*"
)
_OF_CENTRAL = frozenset({"*", "central", "external:*"})
_S3_SCHEMES = ("s3", "s3a")
_CHILD = "import sys; from pipelines.engines.jars import {name}; {name}(*sys.argv[1:])"
_LONGEST_SECONDS = 900


def engine_jars(say: Callable[[str], None], cache: Path | None = None) -> list[Path]:
    """Returns the jars that the classic engine needs beside Spark's own.

    Args:
        say: Told when they have to be fetched.
        cache: Where they are kept; the user's cache folder if not given.

    Raises:
        EngineError: They are neither cached nor can be fetched.
    """
    cache = cache or _cache()
    index = cache / _index_name()
    listed = _listed(index)
    if listed:
        return listed
    say("fetching Delta Lake and GraphFrames for Spark (once; about 50 MB)")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return _fetched(cache, index)
    except OSError as error:
        raise EngineError(f"the jars cannot be kept in {cache}: {error}; make room there, {WITHOUT_JAVA}") from error


def bucket_jars(scheme: str | None, say: Callable[[str], None]) -> list[Path]:
    """Returns the jars with which Spark reads and writes a store in a bucket; none where Spark needs none.

    Args:
        scheme: That of the store's address; None for a folder.
        say: Told when they have to be fetched.

    Raises:
        EngineError: They are neither cached nor can be fetched.
    """
    if scheme not in _S3_SCHEMES:
        return []
    return hadoop_jars(
        "hadoop-aws", _S3, _S3_EXCLUDED, lambda: say("fetching Hadoop's client of S3 for Spark (once; 15 MB)")
    )


def hadoop_jars(artifact: str, more: Sequence[str], excluded: str, fetching: Callable[[], None]) -> list[Path]:
    """Returns the jars of an artifact of Hadoop that Spark does not have, in the version of Spark's Hadoop.

    Args:
        artifact: Its name.
        more: Coordinates of others that it needs.
        excluded: Coordinates to exclude, comma-separated as in ``spark.jars.excludes``.
        fetching: Called when they have to be fetched.

    Raises:
        EngineError: They are neither cached nor can be fetched.
    """
    cache, coordinates = _cache(), f"org.apache.hadoop:{artifact}:{_HADOOP}"
    index = cache / f"{artifact}{_HADOOP}.json"
    listed = _listed(index)
    if listed:
        return listed
    fetching()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as ivy:
        cause = _run_child("fetch_packages", ",".join([coordinates, *more]), excluded, ivy)
        if cause is None:
            return _kept(Path(ivy, "jars"), cache, index)
    raise EngineError(
        f"the jars of {coordinates} cannot be fetched from the Maven repository: {cause}; "
        f"check the network or the mirror in ~/.m2/settings.xml, {WITHOUT_JAVA}"
    )


def cached_jars() -> list[Path]:
    """Returns the jars in the user's cache folder; none where the first run on Spark has yet to fetch them."""
    return _listed(_cache() / _index_name())


def _cache() -> Path:
    return user_cache_path("roundtable") / "jars"


def _index_name() -> str:
    names = {"spark": "pyspark", "delta": "delta-spark", "graphframes": "graphframes-py"}
    return "-".join(f"{name}{version(package)}" for name, package in names.items()) + ".json"


def fetch(graphframes: str, ivy: str) -> None:
    """Lets Spark fetch Delta Lake and one GraphFrames artifact; runs in a process of its own.

    Args:
        graphframes: Coordinates of the artifact.
        ivy: The folder that Ivy fetches into; the jars come to lie in its ``jars``.
    """
    from delta import configure_spark_with_delta_pip

    builder = _fetching(ivy, _EXCLUDED)
    configure_spark_with_delta_pip(builder, extra_packages=[graphframes]).getOrCreate().stop()


def fetch_packages(packages: str, excluded: str, ivy: str) -> None:
    """Lets Spark fetch packages; runs in a process of its own, as `fetch`.

    Args:
        packages: Their coordinates.
        excluded: Coordinates to exclude.
        ivy: As in `fetch`.
    """
    _fetching(ivy, excluded).config("spark.jars.packages", packages).getOrCreate().stop()


def _fetching(ivy: str, excluded: str) -> SparkSession.Builder:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars.ivy", ivy)
        .config("spark.jars.excludes", excluded)
    )


def _listed(index: Path) -> list[Path]:
    """The jars of a list, or none if there is no list or a jar of it is gone."""
    try:
        jars = [index.parent / name for name in json.loads(index.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return []
    return jars if all(jar.is_file() for jar in jars) else []


def _fetched(cache: Path, index: Path) -> list[Path]:
    """Fetches into a new folder and lists it last, so that another process sees all or nothing."""
    causes = []
    for graphframes in GRAPHFRAMES:
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as ivy:
            cause = _run_child("fetch", graphframes, ivy)
            if cause is None:
                return _kept(Path(ivy, "jars"), cache, index)
        causes.append(cause)
        if "io.delta" in cause:
            break
    raise EngineError(
        f"the jars of Delta Lake and GraphFrames cannot be fetched from the Maven repository: {'; '.join(causes)}; "
        f"check the network or the mirror in ~/.m2/settings.xml, {WITHOUT_JAVA}"
    )


def _kept(found: Path, cache: Path, index: Path) -> list[Path]:
    """Moves the jars to a folder of their own and lists them, unless another process was first."""
    first = _listed(index)
    if first:
        return first
    folder = Path(tempfile.mkdtemp(prefix="set-", dir=cache))
    names = []
    for jar in sorted(found.glob("*.jar")):
        shutil.move(jar, folder / jar.name)
        names.append(f"{folder.name}/{jar.name}")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=cache, suffix=".part", delete=False) as part:
        json.dump(names, part)
    Path(part.name).replace(index)
    return [cache / name for name in names]


def _run_child(name: str, *arguments: str) -> str | None:
    """Calls a function of this module in a child process; returns a line about its failure, or None."""
    command = [sys.executable, "-c", _CHILD.format(name=name), *arguments]
    try:
        child = subprocess.run(  # noqa: S603 - this interpreter
            command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=False, env=_environment()
        )
    except subprocess.TimeoutExpired:
        return f"no answer for {arguments[0]} in {_LONGEST_SECONDS} seconds"
    return None if child.returncode == 0 else _cause(child.stdout + child.stderr)


def _environment() -> dict[str, str]:
    """The child's environment: that of this process, not its session, and Maven's mirror where Spark looks for it."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PYSPARK_GATEWAY")
        and key not in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    }
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    mirror = central_mirror()
    if mirror:
        environment.setdefault("DEFAULT_ARTIFACT_REPOSITORY", mirror)
    return environment


def _cause(output: str) -> str:
    """Ivy and Java print pages; one line of them says what is missing or what broke."""
    missing = re.search(r"\[(unresolved dependency.*?)\]", output)
    if missing:
        return missing.group(1)[:300]
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    broken = [line for line in lines if "Exception" in line or "Error" in line]
    return (broken or lines or ["Spark ended without a word"])[0][:300]


def central_mirror() -> str | None:
    """Returns the mirror's URL with a slash at its end: from the user's settings, else from Maven's own, else none."""
    for file in (Path.home() / ".m2" / "settings.xml", *_maven_settings()):
        url = mirror_in(file)
        if url:
            return url
    return None


def mirror_in(file: Path) -> str | None:
    """Returns the URL of the first mirror of Central in a ``settings.xml``; none if it has none or cannot be read."""
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314 - the user's own settings
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        of = {word.strip() for word in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        url = (mirror.findtext("{*}url") or "").strip()
        is_blocked = (mirror.findtext("{*}blocked") or "").strip() == "true"
        if url and not is_blocked and of & _OF_CENTRAL and "!central" not in of:
            return url if url.endswith("/") else url + "/"
    return None


def _maven_settings() -> list[Path]:
    homes = [os.environ[name] for name in ("MAVEN_HOME", "M2_HOME") if os.environ.get(name)]
    program = shutil.which("mvn")
    if program:
        homes.append(str(Path(program).resolve().parents[1]))
    return [Path(home, "conf", "settings.xml") for home in homes]
