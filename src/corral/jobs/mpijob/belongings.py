"""What an MPIJob has beside its pods (hosts, keys, a service, rights), under names that follow from its own.

Whoever may create such a thing can be there first. What belongs to somebody else is neither used nor changed: the job says so and waits.
"""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Obj, is_owned_by, name_of, namespace_of, uid_of
from corral.core.resource import Resource
from corral.jobs.mpijob.ssh_keys import ssh_secret
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.runtime.controller import PermanentError
from corral.runtime.events import Recorder
from corral.runtime.secrets import KeySource


class ForeignObject(PermanentError):
    """Something of that name exists and belongs to somebody else; it is not taken over."""


class Belongings:
    """Makes them, and keeps them up to date."""

    def __init__(self, client: Client, recorder: Recorder, manager: str) -> None:
        self._client = client
        self._recorder = recorder
        self._manager = manager

    async def find(self, job: Obj, resource: Resource, name: str) -> Obj | None:
        """The job's own object of that name, or None; ForeignObject when it is somebody else's."""
        try:
            held = await self._client.get(resource, name, namespace_of(job))
        except NotFound:
            return None
        if not is_owned_by(held, uid_of(job)):
            self.refuse(job, resource, name)
        return held

    async def create(self, job: Obj, resource: Resource, body: Obj) -> None:
        """Make it, unless it is there already."""
        try:
            await self._client.create(resource, body, manager=self._manager)
        except AlreadyExists:
            await self.find(job, resource, name_of(body))

    async def ensure(self, job: Obj, resource: Resource, body: Obj) -> None:
        """Make it, or bring what it holds up to date."""
        held = await self.find(job, resource, name_of(body))
        if held is None:
            await self.create(job, resource, body)
        elif "data" in body and held.get("data") != body["data"]:
            await self._client.update(resource, {**held, "data": body["data"]}, manager=self._manager)

    async def ensure_keys(self, job: Obj, private_key: KeySource) -> None:
        """Keys are made once."""
        name = f"{name_of(job)}-ssh"
        if await self.find(job, SECRETS, name) is None:
            await self.create(job, SECRETS, ssh_secret(job, name, private_key))

    def refuse(self, job: Obj, resource: Resource, name: str) -> None:
        text = f'Resource "{name}" of Kind "{resource.kind}" already exists and is not managed by MPIJob'
        self._recorder.event(job, "Warning", "ErrResourceExists", text)
        raise ForeignObject(text)
