"""What HDFS has of its own: one program wins the lock, whatever comes between; who the server is, and who may write."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from hdfs_native import Client
from support.commands import SMALL

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import StoreError
from pipelines.store import hdfs as module
from pipelines.store.folder import check_store, leased
from pipelines.store.hdfs import Hdfs, HdfsLock

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(hdfs: str) -> Hdfs:
    """A new folder."""
    return Hdfs(f"{hdfs}/{uuid4().hex}")


@pytest.fixture
def lock(folder: Hdfs) -> HdfsLock:
    return folder.lock(".lock")


def test_files(folder: Hdfs) -> None:
    file = folder / "a" / "b c"
    assert (folder.exists(), [*folder.iterdir()], folder.sizes()) == (False, [], {})
    with pytest.raises(FileNotFoundError):
        file.read_text()
    for text in ("first δ", "second"):
        file.write_bytes(text.encode())
        assert file.read_text() == text
    assert (file.is_file(), file.is_dir(), file.n_bytes(), [*file.iterdir()]) == (True, False, 6, [])
    assert (folder.is_dir(), [*folder.iterdir()], folder.sizes()) == (True, [folder / "a"], {"a/b c": 6})
    folder.remove_all()
    assert not folder.exists()


def test_what_the_user_may_not_do_is_told(folder: Hdfs, hdfs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a").write_bytes(b"mine")
    monkeypatch.setenv("HADOOP_USER_NAME", "other")
    with pytest.raises(StoreError, match="AccessControlException: Permission denied: user=other, access=WRITE, inode="):
        (Hdfs(str(folder)) / "b").write_bytes(b"theirs")


def test_a_name_service_comes_from_the_environment(
    hdfs: str, sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = urlsplit(hdfs).netloc
    settings = {"dfs.ha.namenodes.service": "one", "dfs.namenode.rpc-address.service.one": node}
    found = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(found)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert rt.run(SMALL, sail.spark, "hdfs://service/studies/named").verdict == "valid"
    written = [(Hdfs(f"{hdfs}/named") / name).read_text("latin-1") for name in Hdfs(f"{hdfs}/named").sizes()]
    assert len(written) > 20
    assert not [text for text in written if node in text]


def test_a_server_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module._RETRIES, "dfs.client.failover.max.attempts", "1")
    with pytest.raises(StoreError, match=r"HDFS at 'hdfs://127.0.0.1:9/x/.*' fails: Connection refused .*; check"):
        check_store(Hdfs("hdfs://127.0.0.1:9/x"))


def test_a_package_that_is_missing_is_named(hdfs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(StoreError, match=r"pip install 'roundtable-pubsub\[hdfs\]'"):
        Hdfs(hdfs)


def test_one_of_many_makes_the_lock_and_one_changes_it(lock: HdfsLock) -> None:
    with ThreadPoolExecutor(8) as pool:
        [tag] = [made for made in pool.map(lambda n: lock.create(f"{n} made\n"), range(8)) if made]
        found = lock.head()
        assert found is not None
        assert found[0] == tag
        assert abs(found[1].timestamp() - time.time()) < 60
        [new] = [made for made in pool.map(lambda n: lock.update(f"{n} changed\n", tag), range(8)) if made]
    assert new != tag
    assert lock.read_text().endswith("changed\n")


def test_an_old_tag_is_invalid_after_any_change(lock: HdfsLock, folder: Hdfs) -> None:
    old = lock.create("one, a/b: c\n1\n")
    assert old is not None
    assert lock.read_text() == "one, a/b: c\n1\n"
    taken = lock.update("two\n1\n", old)
    assert taken is not None
    assert lock.update("one\n2\n", old) is None
    lock.unlink()
    assert (lock.head(), folder.exists()) == (None, False)
    assert lock.update("one\n3\n", old) is None
    assert lock.create("three\n1\n") is not None
    assert lock.update("one\n4\n", old) is None
    assert (lock.read_text(), len(folder.sizes())) == ("three\n1\n", 1)


class Repeating:
    """A client that renames twice: its first answer was lost."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def rename(self, old: str, new: str) -> None:
        self._client.rename(old, new)
        self._client.rename(old, new)


def test_an_answer_that_is_lost_costs_no_lock(folder: Hdfs) -> None:
    client: Any = Repeating(folder._client)
    lock = HdfsLock(folder / ".lock", client)
    said: list[str] = []
    with leased(lock, "one", said.append) as lease:
        lease.renew()
        assert lock.create("two\n1\n") is None
        lease.renew()
    assert said == []


def test_a_lock_that_somebody_emptied_is_told(lock: HdfsLock, folder: Hdfs) -> None:
    (folder / ".lock" / "a").write_bytes(b"")
    (folder / ".lock" / "b").write_bytes(b"")
    with pytest.raises(StoreError, match=r"the lock '.*' is damaged; remove it where nobody writes the store"):
        lock.head()
