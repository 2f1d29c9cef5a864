"""A private folder for intermediate relations, in memory where the machine has room."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder made in it is private
_ROOM_BYTES = 2 * 1024**3
# Waits until its standard input closes, which happens however this program ends; then removes the folder. It tries
# again because a JVM may still be writing.
_REMOVER = """
import shutil, sys, time
sys.stdin.read()
for _ in range(20):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.1)
"""


def open_scratch(closing: ExitStack) -> Path:
    """Makes a folder that goes away with ``closing``, or with this process, even if it is killed.

    Args:
        closing: Gets the folder's removal.

    Returns:
        The empty folder, readable by this user only.
    """
    folder = Path(tempfile.mkdtemp(prefix="roundtable-", dir=_MEMORY if _has_room(_MEMORY) else None))
    remover = subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-I", "-S", "-c", _REMOVER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        remover.kill()
        if remover.stdin is not None:
            remover.stdin.close()
        remover.wait()

    closing.callback(remove)
    return folder


def _has_room(place: Path) -> bool:
    if not (place.is_dir() and os.access(place, os.W_OK)):
        return False
    return shutil.disk_usage(place).free >= _ROOM_BYTES
