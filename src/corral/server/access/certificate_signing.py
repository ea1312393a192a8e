"""CertificateSigningRequests: who asked is written down on creation, and what an administrator approved is signed.

Only client certificates for this API server are signed; other signers are somebody else's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii

from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj, spec_of, status_of
from corral.server.access.certificates import Authority
from corral.server.verbs.options import Clock
from corral.store import Event, ObjectKey, Stale, Store

BUCKET = "certificatesigningrequests.certificates.k8s.io"
SIGNER = "kubernetes.io/kube-apiserver-client"
DEFAULT_S = 365 * 24 * 3600
_ASKER = ("username", "uid", "groups", "extra")


class CertificateRequests:
    """The plug-in that writes down who asks for a certificate; what a client claims about itself is dropped."""

    name = "CertificateSubject"
    kinds = (("certificates.k8s.io", "CertificateSigningRequest"),)

    def handles(self, request: AdmissionRequest) -> bool:
        return request.resource.plural == "certificatesigningrequests" and request.operation in ("CREATE", "UPDATE")

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        obj = request.obj
        if obj is None:
            return None
        if request.operation == "UPDATE":
            asker = {name: value for name, value in spec_of(request.old or {}).items() if name in _ASKER}
        else:
            user = request.user
            asker = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": user.extra}
        rest = {name: value for name, value in spec_of(obj).items() if name not in _ASKER}
        return {**obj, "spec": {**rest, **{name: value for name, value in asker.items() if value}}}

    async def validate(self, request: AdmissionRequest) -> None:
        """Anything may be asked for; approval is what counts."""


class Signer:
    """Signs approved requests as they appear."""

    def __init__(self, store: Store, authority: Authority, clock: Clock) -> None:
        self._store = store
        self._authority = authority
        self._clock = clock
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()
        store.observe(self._changed)

    def _changed(self, event: Event) -> None:
        if event.stored.key.resource == BUCKET and event.type != "DELETED":
            self._due[event.stored.key.name] = None
            self._wake.set()

    async def run(self) -> None:
        self._due.update(dict.fromkeys(stored.key.name for stored in self._store.scan(BUCKET)))
        while True:
            while self._due:
                name = next(iter(self._due))
                del self._due[name]
                await self._sign(name)
            self._wake.clear()
            await self._wake.wait()

    async def _sign(self, name: str) -> None:
        stored = self._store.get(ObjectKey(BUCKET, "", name))
        if stored is None or not _is_due(stored.obj):
            return
        spec, status = spec_of(stored.obj), status_of(stored.obj)
        try:
            request = base64.b64decode(spec.get("request") or "", validate=True)
            seconds = int(spec.get("expirationSeconds") or DEFAULT_S)
            certificate = self._authority.sign_request(request, self._clock.now(), seconds)
            changed = {**status, "certificate": base64.b64encode(certificate).decode()}
        except (ValueError, binascii.Error) as error:
            changed = {**status, "conditions": [*status.get("conditions", []), self._failure(str(error))]}
        try:
            await self._store.put(stored.key, {**stored.obj, "status": changed}, expected=stored.revision)
        except Stale:
            self._due[name] = None

    def _failure(self, message: str) -> Obj:
        now = self._clock.timestamp()
        return {
            "type": "Failed",
            "status": "True",
            "reason": "SigningError",
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }


def _is_due(request: Obj) -> bool:
    status = status_of(request)
    types = {condition.get("type") for condition in status.get("conditions") or ()}
    asked_here = spec_of(request).get("signerName") == SIGNER
    return asked_here and "Approved" in types and not types & {"Denied", "Failed"} and not status.get("certificate")
