"""What users name a store by: a folder, an address, or a schema of a catalog, which says where the store lies."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from pipelines.engines.names import Engine
from pipelines.errors import StoreError
from pipelines.store.roots import Root, root_of

_NAME = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)


@dataclass(frozen=True)
class Schema:
    """The name of a schema that has a store, see `store.catalog`.

    Attributes:
        catalog: The catalog, as the session names it.
        name: The schema.
    """

    catalog: str
    name: str

    def __str__(self) -> str:
        """Returns the name."""
        return f"{self.catalog}.{self.name}"

    @property
    def quoted(self) -> str:
        """The name, quoted for SQL."""
        return f"`{self.catalog}`.`{self.name}`"

    def check_engine(self, engine: Engine) -> None:
        """Checks that an engine has a catalog that outlives it.

        Raises:
            StoreError: It has none.
        """
        if engine == "local":
            raise StoreError(
                f"no store can be in the schema {str(self)!r} with the engine local, whose catalog ends with its "
                f"process; take --engine spark or connect, name a folder or an address, or ./{self} for a folder of "
                "this name"
            )


def place_of(given: str | Root) -> Root | Schema:
    """Returns the place that a user names, as `root_of`, or a schema.

    A text of exactly two identifiers with a dot between names a schema, unless there is such a folder;
    ``./catalog.schema`` and a `Path` always name a folder.

    Raises:
        StoreError: As `root_of`.
    """
    name = _NAME.fullmatch(given) if isinstance(given, str) and not os.path.lexists(given) else None
    return root_of(given) if name is None else Schema(*name.groups())
