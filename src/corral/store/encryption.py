"""Encryption at rest: objects that hold secrets are sealed before they reach the journal, with AES-GCM under a key file.

The file has one key a line, its id and the key in base64; the last one seals, all of them open. A sealed value names its key
and is bound to the row it was written to, so that no row can be put in the place of another. What was written before there
was a key is JSON, opens as it is, and is sealed when it is written next. Where there is a provider, a service that keeps a key of its
own elsewhere, the file has the keys as the provider has wrapped them, and is worth nothing without it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from corral.store.errors import StoreError
from corral.store.stored import ObjectKey

KEY_FILE: Final = "encryption.key"
_FLEET: Final = "placement.kubernetes-fleet.io"
SEALED: Final = frozenset(
    [
        "secrets",
        *(
            f"{name}.{_FLEET}"
            for name in ("works", "clusterresourcesnapshots", "resourcesnapshots", "resourceenvelopes")
        ),
    ]
)
"""The resources that are sealed: Secrets, and what carries copies of them from a hub to its members."""

_MARK: Final = b"\x00sealed1\x00"  # JSON never starts like this
_ID_BYTES: Final = 4
_KEY_BYTES: Final = 32
_WRAPPED: Final = "wrapped:"
_NAME_IT: Final = (
    "name the one it was written with (encryptionProvider in fleet.yaml, --encryption-provider of a command)"
)
_NONCE_BYTES: Final = 12
_HEAD: Final = len(_MARK) + _ID_BYTES + _NONCE_BYTES
_WAY_OUT: Final = "put back the file that was there when the state was written; a backup of the fleet has it"


class Wraps(Protocol):
    """Keeps keys safe with a key of its own."""

    def wrap(self, key: bytes) -> bytes: ...

    def unwrap(self, wrapped: bytes) -> bytes: ...


def is_sealed(value: bytes) -> bool:
    return value.startswith(_MARK)


class KeyFile:
    """The keys at `path`; a first one is made by `ensure`. `random_bytes` makes keys and nonces."""

    def __init__(self, path: Path, random_bytes: Callable[[int], bytes], provider: Wraps | None = None) -> None:
        self.path = path
        self._random_bytes = random_bytes
        self._provider = provider
        self._lines = _read(path)  # by id, the one that seals last
        self._keys = {name: self._unwrapped(line) for name, line in self._lines.items()}
        self._ciphers = {name: AESGCM(key) for name, key in self._keys.items()}
        self._current = next(reversed(self._keys), b"")

    def _unwrapped(self, line: str) -> bytes:
        if not line.startswith(_WRAPPED):
            return base64.b64decode(line)
        if self._provider is None:
            raise StoreError(f"the keys in {self.path} are wrapped by an encryption provider; {_NAME_IT}")
        key = self._provider.unwrap(base64.b64decode(line.removeprefix(_WRAPPED)))
        if len(key) != _KEY_BYTES:
            raise StoreError(f"the encryption provider does not give back the keys in {self.path}; {_NAME_IT}")
        return key

    def ensure(self) -> None:
        """Have a key to seal with, and none in the file that a provider should have wrapped. Only for a state that has been read: a key
        made beside rows of a lost one hides the loss."""
        if not self._keys:
            self.add()
        elif self._provider is not None and not all(line.startswith(_WRAPPED) for line in self._lines.values()):
            self._write(self._keys)

    def add(self) -> None:
        """Make a key that seals from now on. Earlier ones stay, so that every copy of the state opens with a later file."""
        name = self._random_bytes(_ID_BYTES)
        while name in self._keys:
            name = self._random_bytes(_ID_BYTES)
        keys = {**self._keys, name: self._random_bytes(_KEY_BYTES)}
        self._write(keys)
        self._keys, self._current = keys, name
        self._ciphers[name] = AESGCM(keys[name])

    def _write(self, keys: dict[bytes, bytes]) -> None:
        known = self._lines
        self._lines = {name: known.get(name, "") for name in keys}
        for name, key in keys.items():
            if self._provider is None:
                self._lines[name] = base64.b64encode(key).decode()
            elif not self._lines[name].startswith(_WRAPPED):
                self._lines[name] = _WRAPPED + base64.b64encode(self._provider.wrap(key)).decode()
        _write(self.path, self._lines)

    def seal(self, key: ObjectKey, revision: int, raw: bytes) -> bytes:
        """The value of a row that may be written."""
        nonce = self._random_bytes(_NONCE_BYTES)
        return (
            _MARK + self._current + nonce + self._ciphers[self._current].encrypt(nonce, raw, _row_name(key, revision))
        )

    def open(self, key: ObjectKey, revision: int, value: bytes) -> bytes:
        """The JSON of a row; raises StoreError where no key opens it."""
        if not is_sealed(value):
            return value
        name = value[len(_MARK) : len(_MARK) + _ID_BYTES]
        cipher = self._ciphers.get(name)
        if cipher is None:
            what = "does not have" if self._keys else "is missing: it had"
            raise StoreError(f"cannot read {key}: {self.path} {what} key {name.hex()}, which encrypts it; {_WAY_OUT}")
        try:
            return cipher.decrypt(value[_HEAD - _NONCE_BYTES : _HEAD], value[_HEAD:], _row_name(key, revision))
        except InvalidTag:
            raise StoreError(
                f"cannot read {key}: key {name.hex()} of {self.path} does not open it, so one of them was changed; {_WAY_OUT}"
            ) from None


def _row_name(key: ObjectKey, revision: int) -> bytes:
    return json.dumps([*key, revision]).encode()


def _read(path: Path) -> dict[bytes, str]:
    """What the file says of each key, by its id."""
    try:
        lines = path.read_text("ascii").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read the encryption keys in {path}: {error}; {_WAY_OUT}") from error
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    keys: dict[bytes, str] = {}
    for number, line in enumerate(lines, 1):
        try:
            name, encoded = line.split()
            key_id, key = bytes.fromhex(name), base64.b64decode(encoded.removeprefix(_WRAPPED), validate=True)
        except (ValueError, binascii.Error):
            key_id, key, encoded = b"", b"", ""
        if len(key_id) != _ID_BYTES or (len(key) != _KEY_BYTES and not (key and encoded.startswith(_WRAPPED))):
            raise StoreError(f"line {number} of {path} is not an id and a key of 256 bits in base64; {_WAY_OUT}")
        keys[key_id] = encoded
    if not keys:
        raise StoreError(f"{path} has no key; {_WAY_OUT}")
    return keys


def _write(path: Path, keys: dict[bytes, str]) -> None:
    """Whole or not at all, and on disk before anything is sealed with it."""
    text = "".join(f"{name.hex()} {line}\n" for name, line in keys.items())
    part = path.with_name(f"{path.name}.new")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
