"""Sessions on Spark Connect servers: one that is running, or Sail, which starts in this process without a JVM."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Thread
from typing import cast

import grpc
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as RemoteSession

from pipelines.engines.sail_expressions import SendParsed
from pipelines.engines.settings import endpoint, shipped_settings
from pipelines.engines.workers import stop_workers
from pipelines.errors import EngineError

ANSWER_SECONDS = 10.0
"""How long a server may take to accept a connection; PySpark itself would try for ten minutes."""
_FAREWELL_SECONDS = 3.0
# The thread that asks reads the answer, too: gRPC starts one for each query otherwise.
_OPTIONS = [(grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1)]
# A batch of an answer has a fixed number of rows: 8,000 runs with their nodes exceed the 128 MiB that a client takes by
# default.
_NEAR_OPTIONS = [("grpc.max_receive_message_length", -1)]
# Sail reads these when the server starts. Other settings were measured without an effect beyond noise.
_ENVIRONMENT = {
    "RUST_LOG": "off",
    # An idle session loses its views and state after 15 minutes otherwise.
    "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(365 * 24 * 3600),
    # Every round writes new files: without a limit the cache of their footers only grows.
    "SAIL_PARQUET__FILE_METADATA_CACHE__SIZE_LIMIT": str(64 * 1024**2),
}


def connect(
    url: str,
    closing: ExitStack,
    is_near: bool = False,
    interceptors: Sequence[grpc.UnaryStreamClientInterceptor] = (),
) -> SparkSession:
    """Opens a session of its own on a server.

    Args:
        url: ``sc://host:port``.
        closing: Gets what ends the session.
        is_near: Whether the server is in this very process.
        interceptors: See each request before it is sent.
    """
    channel = DefaultChannelBuilder(url, [*_OPTIONS, *(_NEAR_OPTIONS if is_near else ())])
    for interceptor in interceptors:
        channel.add_interceptor(interceptor)
    if not is_near:
        _check_answers(channel, url)
    session = RemoteSession.builder.channelBuilder(channel).create()
    closing.callback(_stop, session)
    # PySpark 4.1 drops models at exit. There are none, and after a call that Ctrl-C broke off it waits.
    if hasattr(session.client, "_cleanup_ml_cache"):
        atexit.unregister(session.client._cleanup_ml_cache)
    if is_near:
        # Noting for each column where the program makes it takes a tenth of the time of small rounds. Spark takes this
        # setting at its start only.
        session.conf.set("spark.python.sql.dataFrameDebugging.enabled", "false")
        # Streams within a process do not break off; not preparing for that halves the time of a small query.
        session.client.disable_reattachable_execute()
        # Ctrl-C ends the server at once: asking it again, or for a farewell, would hold up the end for ten minutes.
        session.client.set_retry_policies([])
        session.release_session_on_close = False
    return cast(SparkSession, session)


def _check_answers(builder: DefaultChannelBuilder, url: str) -> None:
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
        except grpc.FutureTimeoutError:
            raise EngineError(
                f"no Spark Connect server answers at {url} within {ANSWER_SECONDS:g} s; check the address, and that "
                "the server is up"
            ) from None


def _stop(session: RemoteSession) -> None:
    """Ends a session, but does not block: gRPC does when Ctrl-C broke off a call (its issue 19973)."""
    farewell = Thread(target=session.stop, daemon=True)
    farewell.start()
    farewell.join(_FAREWELL_SECONDS)


def connect_given(closing: ExitStack) -> SparkSession:
    """Opens a session on the server that the variable SPARK_REMOTE names, with the settings that rounds need.

    Raises:
        EngineError: The variable is not set, or the server does not answer.
    """
    url = os.environ.get("SPARK_REMOTE")
    if not url:
        raise EngineError(
            "the engine 'connect' needs a server: name it with --remote or in SPARK_REMOTE, e.g. sc://localhost:15002"
        )
    try:
        session = connect(url, closing)
        session.range(1).collect()
    except EngineError:
        raise
    except Exception as error:
        cause = (str(error).strip().splitlines() or [""])[0]
        raise EngineError(f"no Spark Connect server answers at {url}: {cause}; check the address") from error
    for key, value in shipped_settings().items():
        if key.startswith("spark.sql.") and session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def is_remote(session: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return isinstance(session, RemoteSession)


def is_sail(session: SparkSession) -> bool:
    """Whether a remote session is answered by Sail.

    Both say a release of Spark to ``session.version``. ``version()`` is a release and a revision on Spark and its
    derivatives, and Sail's own release alone on Sail.
    """
    answer = session.sql("select version()").collect()[0][0]
    return len(str(answer).split()) == 1


def start_sail(closing: ExitStack) -> SparkSession:
    """Starts a server on a free loopback port and a session on it.

    Args:
        closing: Gets what stops both.

    Raises:
        EngineError: It does not listen.
    """
    for key, value in _ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    url = endpoint()
    if url is not None:  # Sail knows it by this name only
        os.environ.setdefault("AWS_ENDPOINT", url)
    server = SparkConnectServer()
    server.start(background=True)
    closing.callback(server.stop)
    closing.callback(stop_workers)  # before the server, which waits for the functions that wait for them
    address = server.listening_address
    if address is None:
        raise EngineError("Sail's server does not listen; run with --engine spark")
    return connect(f"sc://{address[0]}:{address[1]}", closing, is_near=True, interceptors=[SendParsed()])
