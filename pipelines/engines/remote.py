"""Opens sessions on Spark Connect servers: a remote server, or Sail, which runs in this process without a JVM."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Any, cast
from uuid import uuid4

import grpc
import pyspark.sql.connect.proto as proto
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as RemoteSession

from pipelines.engines.names import Engine
from pipelines.engines.sail_expressions import SendParsed
from pipelines.engines.settings import endpoint, shipped_settings
from pipelines.engines.workers import stop_workers
from pipelines.errors import EngineError, first_line

ANSWER_SECONDS = 10.0
"""Timeout of the first connection to a server; PySpark itself would retry for ten minutes."""
_RETRIES = 6
"""The number of times that a request to a server is sent again, in 70 s. PySpark itself would retry for ten minutes."""
_FAREWELL_SECONDS = 3.0
# With this option, the calling thread reads the answer. Otherwise gRPC starts a thread for each query.
_OPTIONS = [(grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1)]
# A batch of an answer has a fixed number of rows. Rows of 8,000 runs with their nodes exceed the limit of 128 MiB.
# gRPC would send requests to this process through the proxy in http_proxy, and would wait for an answer forever.
_NEAR_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""The variables that name a proxy for gRPC; the first variable that is set applies."""
# Sail reads these variables when the server starts. Other settings had no measurable effect.
_ENVIRONMENT = {
    "RUST_LOG": "off",
    # By default an idle session loses its views and state after 15 minutes.
    "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(365 * 24 * 3600),
    # Every round writes new files; an unlimited cache of their footers would grow forever.
    "SAIL_PARQUET__FILE_METADATA_CACHE__SIZE_LIMIT": str(64 * 1024**2),
}
_ATTEMPTS = 3
"""The number of times that a query is sent to Sail until its answer is whole."""
_RELEASE = "/spark.connect.SparkConnectService/ReleaseExecute"
_LOG = logging.getLogger("roundtable")


class WholeAnswers(grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]  # grpc is untyped
    """A gRPC interceptor that repeats a query if its answer ends too early.

    On a loaded machine, an answer of Sail can end without an error before its last batch of rows; this was observed
    about once in 100,000 queries. Sail marks the end of an answer only if the query may be reattached. The interceptor
    therefore requests reattachable answers. It releases each answer, because Sail would keep it until the end of the
    session. PySpark's own reattachable execution takes three times as long.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        """Stores a channel to the server, for requests that release an answer."""
        self._release = channel.unary_unary(
            _RELEASE, proto.ReleaseExecuteRequest.SerializeToString, proto.ReleaseExecuteResponse.FromString
        )

    def intercept_unary_stream(
        self, ask: Callable[..., Iterator[Any]], details: Any, request: Any  # noqa: ANN401 - grpc is untyped
    ) -> Iterator[Any]:  # fmt: skip
        """Sends a request. If it is a query, yields the responses after the answer is complete.

        Raises:
            PySparkException: The answer ended early `_ATTEMPTS` times.
        """
        if not request.plan.HasField("root"):
            return ask(details, request)
        option = proto.ReattachOptions(reattachable=True)
        request.request_options.append(proto.ExecutePlanRequest.RequestOption(reattach_options=option))
        return self._whole(ask, details, request)

    def _whole(self, ask: Callable[..., Iterator[Any]], details: Any, request: Any) -> Iterator[Any]:  # noqa: ANN401
        for attempt in range(1, _ATTEMPTS + 1):
            request.operation_id = str(uuid4())
            responses = [*ask(details, request)]
            self._release(
                proto.ReleaseExecuteRequest(
                    session_id=request.session_id, user_context=request.user_context,
                    operation_id=request.operation_id, release_all=proto.ReleaseExecuteRequest.ReleaseAll(),
                )
            )  # fmt: skip
            if responses and responses[-1].HasField("result_complete"):
                yield from responses
                return
            _LOG.warning("an answer of Sail ended early, attempt %d of %d", attempt, _ATTEMPTS)
        raise PySparkException(f"Sail's answer ended early {_ATTEMPTS} times; repeat the query, or use engine 'spark'")


def _session(channel: DefaultChannelBuilder, closing: ExitStack) -> RemoteSession:
    session = RemoteSession.builder.channelBuilder(channel).create()
    closing.callback(_stop, session)
    return session


def _check_answers(builder: DefaultChannelBuilder, url: str) -> None:
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
        except grpc.FutureTimeoutError:
            proxy = next((name for name in _PROXIES if os.environ.get(name)), None)
            hint = "" if proxy is None else f", and the proxy in {proxy}, or add the host to no_proxy"
            raise EngineError(
                f"no Spark Connect server answers at {url} within {ANSWER_SECONDS:g} s; check the address, and that "
                f"the server is up{hint}"
            ) from None


def _stop(session: RemoteSession) -> None:
    """Ends a session; waits at most `_FAREWELL_SECONDS`, because after an interruption by Ctrl-C gRPC may block.

    The client is closed even if `session.stop` blocks: at exit, PySpark 4.1 sends a request through an open client, and
    repeats it for ten minutes.
    """
    for end in (session.stop, session.client.close):
        farewell = Thread(target=end, daemon=True)
        farewell.start()
        farewell.join(_FAREWELL_SECONDS)


def connect_from_environment(closing: ExitStack) -> SparkSession:
    """Opens a session on the server at the address in SPARK_REMOTE.

    Applies those ``spark.sql.*`` settings of ``conf/spark/local.conf`` that a session may change. ``closing`` ends the
    session.

    Raises:
        EngineError: SPARK_REMOTE is not set, or the server does not answer.
    """
    url = os.environ.get("SPARK_REMOTE")
    if not url:
        raise EngineError(
            "the engine 'connect' needs a server: name it with --remote or in SPARK_REMOTE, e.g. sc://localhost:15002"
        )
    try:
        channel = DefaultChannelBuilder(url, _OPTIONS)
        _check_answers(channel, url)
        session = _session(channel, closing)
        for policy in session.client.get_retry_policies():
            policy.max_retries = _RETRIES
        session.range(1).collect()
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(
            f"no Spark Connect server answers at {url}: {first_line(error)}; check the address"
        ) from error
    for key, value in shipped_settings().items():
        if key.startswith("spark.sql.") and session.conf.isModifiable(key):
            session.conf.set(key, value)
    return cast(SparkSession, session)


def engine_of(session: SparkSession) -> Engine:
    """Returns the engine of a session.

    The SQL function ``version()`` returns a release and a revision on Spark, but only a release on Sail.
    ``session.version`` does not distinguish Spark and Sail.

    Raises:
        EngineError: ``session`` is not a session.
    """
    if "version" not in dir(session):  # `hasattr` would call a JVM, which may have ended
        raise EngineError(f"spark is {session!r}, not a Spark session; engine=... names an engine, store=... a store")
    if not isinstance(session, RemoteSession):
        return "spark"
    answer = session.sql("select version()").collect()[0][0]
    return "local" if len(str(answer).split()) == 1 else "connect"


def start_sail(closing: ExitStack) -> SparkSession:
    """Starts a Sail server on a free loopback port and opens a session on it; ``closing`` stops both.

    Raises:
        EngineError: The server does not listen.
    """
    for key, value in _ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    url = endpoint()
    if url is not None:  # Sail reads only this variable
        os.environ.setdefault("AWS_ENDPOINT", url)
    from pysail.spark import SparkConnectServer  # a program that uses Spark only does not need the package

    server = SparkConnectServer()
    server.start(background=True)
    closing.callback(server.stop)
    closing.callback(stop_workers)  # runs before server.stop, which waits for pending functions
    address = server.listening_address
    if address is None:
        raise EngineError("Sail's server does not listen; run with --engine spark")
    channel = DefaultChannelBuilder(f"sc://{address[0]}:{address[1]}", [*_OPTIONS, *_NEAR_OPTIONS])
    to_release = channel.toChannel()
    closing.callback(to_release.close)
    channel.add_interceptor(WholeAnswers(to_release))
    channel.add_interceptor(SendParsed())
    session = _session(channel, closing)
    # PySpark records the call site of each column by default, which takes a tenth of the time of small rounds.
    # Spark accepts this setting only when it starts.
    session.conf.set("spark.python.sql.dataFrameDebugging.enabled", "false")
    # `WholeAnswers` replaces reattachable execution and takes a third of its time.
    session.client.disable_reattachable_execute()
    # Ctrl-C ends the server immediately; retries and a release request would delay the exit by ten minutes.
    session.client.set_retry_policies([])
    session.release_session_on_close = False
    return cast(SparkSession, session)
