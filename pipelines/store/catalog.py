"""Stores named ``catalog.schema``: the schema's location holds the store, and the schema lists the store's tables.

The store itself is a local folder or a remote path, with its ledger and its single writer. When all runs have ended,
`register` creates external tables in the schema, so SQL readers of the catalog see complete runs only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipelines.engines.classic import running_session
from pipelines.engines.names import Engine, engine_for
from pipelines.engines.session import Session, open_session
from pipelines.errors import StoreError, first_line
from pipelines.store.folder import check_empty, new_store
from pipelines.store.roots import Root, Schema, engine_path, place_of, root_of
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT

PROPERTY = "roundtable.store"
"""The schema property that names the location of the store; without it, the store is at the schema's location."""
SPARKS_OWN = "spark_catalog"
_VALUE = re.compile(rf"\({re.escape(PROPERTY)},([^()]*)\)")
_MANAGED = "__unitystorage"
"""A path component of every location that Unity Catalog manages itself."""
_KEPT = "the section on catalogs in conf/spark/README.md explains persistent catalogs"


def located(place: str | Root | Schema, spark: SparkSession | None = None, engine: Engine | None = None) -> Root:
    """Returns the location of a store; looks up a schema in its catalog.

    ``spark`` is the session whose catalog has the schema; None opens a session of engine ``engine``. None and
    ``local``, which has no persistent catalog, stand for the engine in ROUNDTABLE_ENGINE. Without this variable, they
    stand for ``connect`` if SPARK_REMOTE is set, else for ``spark``.

    Raises:
        StoreError: The schema does not exist or has no writable location.
        EngineError: The engine cannot be started.
    """
    named = place if isinstance(place, Schema) else place_of(place)
    if not isinstance(named, Schema):
        return named
    default: Engine = "connect" if os.environ.get("SPARK_REMOTE") and running_session() is None else "spark"
    with_catalog = (one for one in (engine, engine_for(None, "local")) if one is not None and one != "local")
    with open_session(next(with_catalog, default), spark) as session:
        named.check_engine(session.engine)
        found = _schema_location(named.quoted, session)
        if found is None:
            raise StoreError(
                f"schema {str(named)!r} does not exist in the session's catalog{_memory_warning(named, session)}, "
                "and no folder has this name; give the schema or the location that `roundtable run` printed"
            )
        return _root(named, found)


@contextmanager
def new_place(
    place: Root | Schema | None, session: Session, scenario: str, say: Callable[[str], None]
) -> Iterator[tuple[Root, Callable[[], None]]]:
    """Creates a schema if it is missing; creates and locks the location of a new store as `folder.new_store` does.

    An error before the first commit drops a schema that this function created, unless its location contains files.
    ``session`` is the engine whose catalog has the schema, and ``say`` receives the location of the schema's store.

    Raises:
        StoreError: As in `folder.new_store`; or the schema cannot be created, has tables, or has no writable location.
    """
    schema = _created_schema(place, session, say) if isinstance(place, Schema) else nullcontext(place)
    with schema as root, new_store(root, scenario, say) as made:
        yield made


@contextmanager
def _created_schema(schema: Schema, session: Session, say: Callable[[str], None]) -> Iterator[Root]:
    schema.check_engine(session.engine)
    found = _schema_location(schema.quoted, session)
    if found is None:
        forgetful = _memory_warning(schema, session)
        if forgetful and session.owns:
            raise StoreError(f"no store can be in the schema {str(schema)!r} of a catalog{forgetful}; {_KEPT}")
        with _as_store_error(f"the schema {str(schema)!r} cannot be created"):
            session.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema.quoted}")
    root: Root | None = None
    try:
        root = _root(schema, _schema_location(schema.quoted, session) or "")
        there = _tables(schema.quoted, session)
        if there:
            raise StoreError(
                f"the schema {str(schema)!r} has tables already: {', '.join(sorted(there))}; name a new schema, or one "
                "without tables"
            )
        if session.owns and isinstance(root, Path) and root.is_relative_to(session.scratch):
            raise StoreError(
                f"the folder of the schema {str(schema)!r} is removed with this session: set spark.sql.warehouse.dir; "
                f"{_KEPT}"
            )
        check_empty(root)
        say(f"the store of {schema} lies at {root}{_memory_warning(schema, session)}")
        yield root
    except BaseException:
        if found is None and not (root is not None and root.is_dir() and any(root.iterdir())):
            with suppress(PySparkException):
                session.spark.sql(f"DROP SCHEMA IF EXISTS {schema.quoted}")
        raise


def register(name: str, store: Store, say: Callable[[str], None]) -> None:
    """Registers the tables of a finished store as external tables of schema ``name``; skips registered tables.

    If the session's catalog lacks the schema, or has another location for it, the function reports this with ``say``
    and registers no table.

    Raises:
        StoreError: The schema has other tables with the same names, or the catalog denies their creation.
    """
    schema, session = Schema(*name.split(".")), store.session
    found = _schema_location(schema.quoted, session)
    if found is None or _root(schema, found).absolute() != store.root:
        say(f"the tables are not registered in {name}: the session's catalog does not have it for this store")
        return
    there = _tables(schema.quoted, session)
    missing = [table for table in store.tables() if table not in there]
    if not missing:
        return
    say(f"registering {len(missing)} tables in {name}")
    cure = "correct the cause, and resume the store"
    with _as_store_error(f"the tables cannot be registered in the schema {name!r}", cure):
        for table in there.intersection(store.tables()):
            _check_own(schema, table, store)
        for table in missing:
            location = engine_path(store.path(table)).replace("\\", "\\\\").replace("'", "\\'")
            session.spark.sql(f"CREATE TABLE {schema.quoted}.`{table}` USING DELTA LOCATION '{location}'")


def _check_own(schema: Schema, table: str, store: Store) -> None:
    [row] = store.session.spark.sql(f"DESCRIBE DETAIL {schema.quoted}.`{table}`").select("location").collect()
    if root_of(row.location).absolute() != store.path(table):
        raise StoreError(
            f"the schema {str(schema)!r} has another table {table!r}, at {row.location}: drop or rename it, and resume "
            "the store"
        )


def check_no_store(name: str, session: Session) -> None:
    """Checks that a schema exists and contains no store, because an export would overwrite the store's tables.

    Raises:
        StoreError: The schema (``name``, quoted for SQL) does not exist, it contains the tables of a store, or
            Roundtable started the engine local, which keeps no schemas.
    """
    with _as_store_error(f"the schema {name!r} cannot be looked up", "name an existing schema, quoted for SQL"):
        is_known = session.spark.catalog.databaseExists(name)
    if not is_known:
        raise StoreError(f"the schema {name!r} does not exist; create it with CREATE SCHEMA, or name another")
    if session.engine == "local":
        if session.owns:
            raise StoreError(f"the engine local keeps no schema; open the store with engine spark to write {name!r}")
        return  # the schemas of the caller's session end with it, so they have no stores
    if ROUND_COMMIT.name in _tables(name, session):
        raise StoreError(f"the schema {name!r} has the tables of a store, which must not be overwritten; name another")


def _schema_location(name: str, session: Session) -> str | None:
    """Returns the location of a schema; "" if the schema has no location, and None if the schema does not exist."""
    if session.engine == "local":
        return None
    try:
        rows = session.spark.sql(f"DESCRIBE SCHEMA EXTENDED {name}").collect()
    except PySparkException as error:
        if error.getCondition() == "SCHEMA_NOT_FOUND":
            return None
        plain, cause = name.replace("`", ""), first_line(error).rstrip(".")
        raise StoreError(
            f"the schema {plain!r} cannot be looked up: {cause}; the session needs a catalog of this name "
            f"(Spark's own is {SPARKS_OWN}); ./{plain} names a folder"
        ) from error
    told = {str(row[0]): str(row[1] or "") for row in rows}
    chosen = _VALUE.search(told.get("Properties", ""))
    return (chosen[1] if chosen else told.get("Location", "")).strip()


def _root(schema: Schema, location: str) -> Root:
    if not location or _MANAGED in location:
        raise StoreError(
            f"the schema {str(schema)!r} has no location that a program can write by path, because its catalog manages "
            "the locations of tables; create the schema with an external location: CREATE SCHEMA "
            f"{schema} WITH DBPROPERTIES ('{PROPERTY}' = 's3://bucket/folder')"
        )
    return root_of(location)


def _tables(name: str, session: Session) -> set[str]:
    rows = session.spark.sql(f"SHOW TABLES IN {name}").collect()
    return {row.tableName for row in rows if not row.isTemporary}


def _memory_warning(schema: Schema, session: Session) -> str:
    """Returns a clause for messages that warns about an in-memory catalog; "" for a persistent catalog."""
    is_own = session.is_classic and schema.catalog == SPARKS_OWN
    if is_own and session.spark.conf.get("spark.sql.catalogImplementation", None) == "in-memory":
        return ", which is in memory and loses its schemas when the process of Spark ends"
    return ""


@contextmanager
def _as_store_error(what: str, to_do: str = "check the rights in this catalog") -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise StoreError(f"{what}: {first_line(error).rstrip('.')}; {to_do}") from error
