"""Secrets are encrypted on disk: who gets a copy of the database without the key file reads none of them."""

from __future__ import annotations

import shlex
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from corral.cli.main import corral
from corral.clusters.embedded_api import EmbeddedApi
from corral.configuration.fleet import ClusterSpec, FleetSpec, parse
from corral.core.meta import Obj
from corral.fleet import backup
from corral.fleet.folder import FleetFolder
from corral.fleet.removal import remove
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.runtime.key_provider import ProviderError
from corral.runtime.secrets import random_bytes
from corral.store import ObjectKey, SqliteJournal, Store, StoreError
from corral.store.encryption import KEY_FILE, KeyFile
from corral.store.sqlite import rotate_key

VALUE = "aHVudGVyMi1pcy1teS1wYXNzd29yZA=="
FLEET = "placement.kubernetes-fleet.io"
KEYS = [
    ObjectKey("secrets", "default", "s"),
    ObjectKey(f"works.{FLEET}", "fleet-member-a", "s"),
    ObjectKey(f"clusterresourcesnapshots.{FLEET}", "", "s"),
    ObjectKey(f"resourcesnapshots.{FLEET}", "default", "s"),
    ObjectKey(f"resourceenvelopes.{FLEET}", "default", "s"),
]
SECRET = KEYS[0]


def holding(key: ObjectKey, value: str = VALUE) -> Obj:
    return {"apiVersion": "v1", "metadata": {"name": key.name}, "data": {"password": value}}


def opened(state: Path, *, encrypted: bool = True) -> Store:
    state.mkdir(exist_ok=True, parents=True)
    keys = KeyFile(state / KEY_FILE, random_bytes) if encrypted else None
    return Store(SqliteJournal(state / "store.db", keys), now=lambda: 0.0)


async def put(store: Store, *keys: ObjectKey) -> None:
    for key in keys:
        head = store.head(key)
        await store.put(key, holding(key), expected=head.revision if head else 0)


async def written(state: Path, *keys: ObjectKey, encrypted: bool = True) -> None:
    store = opened(state, encrypted=encrypted)
    await put(store, *keys)
    await store.close()


async def value_of(state: Path, key: ObjectKey = SECRET) -> str:
    store = opened(state)
    found = store.get(key)
    await store.close()
    assert found is not None
    return str(found.obj["data"]["password"])


def on_disk(state: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(state.glob("store.db*")))


async def refusal(state: Path) -> str:
    with pytest.raises(StoreError) as refused:
        opened(state)
    return str(refused.value)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.resource)
async def test_what_holds_secrets_is_not_in_the_files_and_is_read_back(tmp_path: Path, key: ObjectKey) -> None:
    store = opened(tmp_path)
    await put(store, key)
    assert VALUE.encode() not in on_disk(tmp_path)  # also not in the write-ahead log
    await store.close()
    assert VALUE.encode() not in on_disk(tmp_path)
    assert await value_of(tmp_path, key) == VALUE


@pytest.mark.parametrize("named", ["", "keys"])
async def test_a_cluster_encrypts_the_secrets_it_is_given(tmp_path: Path, named: str) -> None:
    state, file = tmp_path / "state", tmp_path / named if named else None
    cluster = EmbeddedApi(state, encryption_key=file)
    await cluster.start()
    try:
        metadata = {"name": SECRET.name, "namespace": SECRET.namespace}
        await cluster.client.create(SECRETS, {"metadata": metadata, "data": {"password": VALUE}})
        assert VALUE.encode() not in on_disk(state)
    finally:
        await cluster.stop()
    assert (file or state / KEY_FILE).exists()
    assert (state / KEY_FILE).exists() == (file is None)
    again = EmbeddedApi(state, encryption_key=file)
    found = again.store.get(SECRET)
    await again.store.close()
    assert found is not None
    assert found.obj["data"] == {"password": VALUE}


async def test_the_key_file_is_private(tmp_path: Path) -> None:
    await written(tmp_path, SECRET)
    file = tmp_path / KEY_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    await value_of(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600


async def test_state_from_before_encryption_opens_and_is_encrypted_when_written_next(tmp_path: Path) -> None:
    await written(tmp_path, SECRET, encrypted=False)
    assert VALUE.encode() in on_disk(tmp_path)
    assert await value_of(tmp_path) == VALUE
    await written(tmp_path, SECRET)
    with closing(sqlite3.connect(tmp_path / "store.db")) as database:
        old, new = [value for (value,) in database.execute("SELECT value FROM log ORDER BY revision")]
    assert VALUE.encode() in old
    assert VALUE.encode() not in new
    assert await value_of(tmp_path) == VALUE


async def test_rotation_encrypts_everything_under_a_new_key(tmp_path: Path) -> None:
    await written(tmp_path, SECRET, encrypted=False)
    await written(tmp_path, *KEYS)
    before, first = on_disk(tmp_path), (tmp_path / KEY_FILE).read_text()
    assert VALUE.encode() in before
    assert rotate_key(tmp_path / "store.db", KeyFile(tmp_path / KEY_FILE, random_bytes)) == 6
    assert VALUE.encode() not in on_disk(tmp_path)
    text = (tmp_path / KEY_FILE).read_text()
    assert text.startswith(first)  # a copy of the state from before opens with this file, too
    (tmp_path / KEY_FILE).write_text(text.removeprefix(first))
    assert [await value_of(tmp_path, key) for key in KEYS] == [VALUE] * 5


async def test_rotation_waits_for_nobody_who_uses_the_state(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await put(store, SECRET)
    before = (tmp_path / KEY_FILE).read_text()
    with pytest.raises(StoreError, match="is another process using it"):
        rotate_key(tmp_path / "store.db", KeyFile(tmp_path / KEY_FILE, random_bytes))
    await store.close()
    assert (tmp_path / KEY_FILE).read_text() == before


async def test_a_missing_key_file_is_said_and_no_other_is_made(tmp_path: Path) -> None:
    await written(tmp_path, SECRET)
    name = (tmp_path / KEY_FILE).read_text().split()[0]
    (tmp_path / KEY_FILE).rename(tmp_path / "kept")
    said = await refusal(tmp_path)
    assert f"cannot read secrets default/s: {tmp_path / KEY_FILE} is missing: it had key {name}" in said
    assert "put back the file" in said
    assert not (tmp_path / KEY_FILE).exists()
    (tmp_path / "kept").rename(tmp_path / KEY_FILE)
    assert await value_of(tmp_path) == VALUE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("00000000 " + "A" * 43 + "=\n", "does not have key"),
        ("ID " + "A" * 43 + "=\n", "does not open it, so one of them was changed"),
        ("00000000 AAAA\n", "line 1 of .* is not an id and a key of 256 bits"),
        ("nonsense\n", "line 1 of .* is not an id and a key of 256 bits"),
        ("", "has no key"),
    ],
)
async def test_a_wrong_key_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    await written(tmp_path, SECRET)
    name = (tmp_path / KEY_FILE).read_text().split()[0]
    (tmp_path / KEY_FILE).write_text(text.replace("ID", name))
    with pytest.raises(StoreError, match=said):
        opened(tmp_path)


async def test_encrypted_state_without_any_key_file_named_is_said(tmp_path: Path) -> None:
    await written(tmp_path, SECRET)
    with pytest.raises(StoreError, match=r"it is encrypted in .*, and no key file was named"):
        opened(tmp_path, encrypted=False)


async def test_one_row_does_not_pass_for_another(tmp_path: Path) -> None:
    await written(tmp_path, SECRET, ObjectKey("secrets", "kube-system", "other"))
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        database.execute("UPDATE log SET value = (SELECT value FROM log WHERE name = 's') WHERE name = 'other'")
    assert "cannot read secrets kube-system/other" in await refusal(tmp_path)


async def fleet_of(root: Path, *names: str) -> FleetFolder:
    folder = FleetFolder(root)
    folder.create()
    folder.write_spec(FleetSpec(clusters=[ClusterSpec(name=name) for name in names]))
    for name in names:
        await written(folder.cluster(name), SECRET)
    return folder


async def test_the_command_rotates_the_keys_of_a_fleet_and_of_one_state(tmp_path: Path) -> None:
    folder = await fleet_of(tmp_path / "fleet", "manager", "worker1")
    await written(tmp_path / "one", SECRET)
    states = [folder.cluster("manager"), folder.cluster("worker1"), tmp_path / "one"]
    for state in (folder.root, tmp_path / "one"):
        result = CliRunner().invoke(corral, ["secrets", "rotate-key", "--state", str(state)])
        assert result.exit_code == 0, result.output
    for state in states:
        assert len((state / KEY_FILE).read_text().splitlines()) == 2
        assert await value_of(state) == VALUE
    result = CliRunner().invoke(corral, ["secrets", "rotate-key", "--state", str(tmp_path / "nothing")])
    assert (result.exit_code, "there is neither a fleet nor a cluster's state in" in result.output) == (1, True)


async def test_a_backup_has_the_keys_and_removal_takes_them(tmp_path: Path) -> None:
    folder, copy = await fleet_of(tmp_path / "fleet", "manager"), FleetFolder(tmp_path / "copy")
    backup.write(folder, tmp_path / "file")
    copy.create()
    backup.read(copy, tmp_path / "file")
    assert await value_of(copy.cluster("manager")) == VALUE
    assert remove(folder) == []
    assert not folder.root.exists()


# a provider: the keys in the file are wrapped by a program of the administrator's

PROGRAM = """
import sys
data = sys.stdin.buffer.read()
if sys.argv[1] != "right":
    sys.exit("no such key")
if sys.argv[2] == "decrypt" and not data.startswith(b"under lock: "):
    sys.exit("not mine")
turned = bytes(byte ^ 0x5A for byte in data.removeprefix(b"under lock: "))
sys.stdout.buffer.write(turned if sys.argv[2] == "decrypt" else b"under lock: " + turned)
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "provider.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path), "right"]


async def secret_of(state: Path, provider: list[str]) -> str:
    cluster = EmbeddedApi(state, encryption_provider=provider)
    await cluster.start()
    try:
        found = await cluster.client.get(SECRETS, "s", "default")
        return str(found["data"]["password"])
    finally:
        await cluster.stop()


async def with_a_secret(state: Path, provider: list[str]) -> None:
    cluster = EmbeddedApi(state, encryption_provider=provider)
    await cluster.start()
    await cluster.client.create(
        SECRETS, {"metadata": {"name": "s", "namespace": "default"}, "data": {"password": VALUE}}
    )
    await cluster.stop()


async def test_a_provider_keeps_the_file_from_opening_the_state_alone(tmp_path: Path, program: list[str]) -> None:
    state = tmp_path / "state"
    await with_a_secret(state, program)
    lines = (state / KEY_FILE).read_text().splitlines()
    assert lines
    assert all(line.split()[1].startswith("wrapped:") for line in lines)
    assert await secret_of(state, program) == VALUE
    with pytest.raises(
        StoreError, match=r"are wrapped by an encryption provider; name the one .*--encryption-provider"
    ):
        EmbeddedApi(state)


async def test_keys_from_before_the_provider_are_wrapped_and_open_what_they_sealed(
    tmp_path: Path, program: list[str]
) -> None:
    state = tmp_path / "state"
    await with_a_secret(state, [])
    assert "wrapped:" not in (state / KEY_FILE).read_text()
    assert await secret_of(state, program) == VALUE
    assert all("wrapped:" in line for line in (state / KEY_FILE).read_text().splitlines())
    assert await secret_of(state, program) == VALUE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda program: [*program[:2], "wrong"], "failed with 1: no such key"),
        (lambda program: ["/nowhere/provider"], "cannot be run: No such file or directory"),
        (lambda program: ["true"], "answered with 0 bytes"),
        (lambda program: ["sh", "-c", "cat"], "does not give back the keys"),
    ],
)
async def test_a_provider_that_does_not_work_is_named(
    tmp_path: Path, program: list[str], change: Callable[[list[str]], list[str]], said: str
) -> None:
    state = tmp_path / "state"
    await with_a_secret(state, program)
    kept = (state / KEY_FILE).read_bytes()
    with pytest.raises((ProviderError, StoreError), match=said):
        EmbeddedApi(state, encryption_provider=change(program))
    assert (state / KEY_FILE).read_bytes() == kept


async def test_one_command_makes_a_new_wrapped_key(tmp_path: Path, program: list[str]) -> None:
    folder = FleetFolder(tmp_path / "fleet")
    folder.create()
    folder.write_spec(FleetSpec([ClusterSpec("a", ["worker"])], encryption_provider=program))
    await with_a_secret(folder.cluster("a"), program)
    done = CliRunner().invoke(corral, ["secrets", "rotate-key", "--state", str(folder.root)])
    assert done.exit_code == 0, done.output
    lines = (folder.cluster("a") / KEY_FILE).read_text().splitlines()
    assert len(lines) == 2
    assert all("wrapped:" in line for line in lines)
    assert await secret_of(folder.cluster("a"), program) == VALUE
    await with_a_secret(tmp_path / "served", program)
    refused = CliRunner().invoke(corral, ["secrets", "rotate-key", "--state", str(tmp_path / "served")])
    assert refused.exit_code == 1
    assert "wrapped by an encryption provider" in refused.output
    named = ["--encryption-provider", shlex.join(program)]
    assert (
        CliRunner().invoke(corral, ["secrets", "rotate-key", "--state", str(tmp_path / "served"), *named]).exit_code
        == 0
    )


def test_a_fleet_file_names_the_provider() -> None:
    fleet = parse({"clusters": [{"name": "a", "roles": ["worker"]}], "encryptionProvider": ["kms", "--key", "k"]}, "f")
    assert fleet.encryption_provider == ["kms", "--key", "k"]
