"""The configuration of a process of controllers: from a file or a ConfigMap, read again when it changes.

One that cannot be used is told of and leaves the last one in force: a slip of the pen must not stop what works."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from corral.client.protocol import Client
from corral.configuration.document import checked_configuration
from corral.configuration.part import ConfigurationError
from corral.configuration.queueing import DEFAULT_NAMESPACE
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj
from corral.core.text_files import read_text
from corral.jobs.framework.registry import shipped_frameworks
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.runtime.clock import Clock
from corral.runtime.informer import Informer
from corral.runtime.random import Random

log = logging.getLogger(__name__)

CONFIG_MAP, CONFIG_KEY = "kueue-manager-config", "controller_manager_config.yaml"
LOOK_AGAIN_S = 2.0


class Origin(Protocol):
    """Where the text of a configuration is."""

    @property
    def name(self) -> str: ...

    async def read(self) -> str:
        """The text now; nothing where there is none."""
        ...

    async def follow(self, changed: Callable[[str], None]) -> None:
        """Tell of the text whenever it may have changed, until cancelled."""
        ...


class FileOrigin:
    """A file, also one that Kubernetes mounts: what is read counts, not when it was written."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.name = str(path)
        self._path = path
        self._clock = clock

    async def read(self) -> str:
        try:
            return read_text(self._path)
        except OSError as error:
            raise ConfigurationError(f"{self._path}: {error.strerror}") from error
        except ValueError as error:
            raise ConfigurationError(f"{self._path} is not YAML: {error}") from error

    async def follow(self, changed: Callable[[str], None]) -> None:
        while True:
            await self._clock.sleep(LOOK_AGAIN_S)
            try:
                changed(await self.read())
            except ConfigurationError as error:
                log.warning("the configuration cannot be read again", extra={"error": str(error)})


class ConfigMapOrigin:
    """The ConfigMap that an installation of Kueue has too, so that its configuration is taken over."""

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self.name = f"ConfigMap {namespace}/{CONFIG_MAP}"
        self._client = client
        self._key = Key(namespace, CONFIG_MAP)
        self._informer = Informer(
            client, CONFIG_MAPS, clock, Random(), namespace=namespace, fields=f"metadata.name={CONFIG_MAP}"
        )

    async def read(self) -> str:
        try:
            return _text(await self._client.get(CONFIG_MAPS, self._key.name, self._key.namespace))
        except NotFound:
            return ""

    async def follow(self, changed: Callable[[str], None]) -> None:
        self._informer.on_change(lambda old, new: changed(_text(new or {})))
        await self._informer.run()


def _text(config_map: Obj) -> str:
    return str((config_map.get("data") or {}).get(CONFIG_KEY) or "")


class ConfigurationInForce:
    """`open` it, read `document`, and wait with `other_than` until there is another one. `namespace` is that of the controllers
    where the document does not say."""

    def __init__(self, origin: Origin, namespace: str = "") -> None:
        self._origin = origin
        self._namespace = namespace
        self._text = ""
        self._is_open = False
        self._changed = asyncio.Event()
        self.document: Obj = {}

    async def open(self) -> None:
        """Read it for the first time. Raises ConfigurationError."""
        if not self._is_open:
            self._text = await self._origin.read()
            self.document = self._read(self._text)
            self._is_open = True

    async def follow(self) -> None:
        """Keep it current until cancelled."""
        await self._origin.follow(self._take)

    async def other_than(self, known: Obj) -> None:
        """Return once another document is in force."""
        while self.document is known:
            await self._changed.wait()

    def _take(self, text: str) -> None:
        if text == self._text:
            return
        self._text = text
        try:
            self.document = self._read(text)
        except ConfigurationError as error:
            log.error("the changed configuration is not used", extra={"error": str(error)})
            return
        log.info("another configuration is in force", extra={"origin": self._origin.name})
        self._changed.set()
        self._changed = asyncio.Event()

    def _read(self, text: str) -> Obj:
        document = checked_configuration(text, self._origin.name) if text.strip() else {}
        if self._namespace in ("", DEFAULT_NAMESPACE) or "namespace" in document:
            return document
        # An empty document means every kind of job, one that speaks of something else only batch/job.
        kinds = {} if document else {"integrations": {"frameworks": list(shipped_frameworks())}}
        return {**kinds, **document, "namespace": self._namespace}
