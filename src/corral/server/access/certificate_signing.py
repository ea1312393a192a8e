"""CertificateSigningRequests: who asked is written down on creation, and what was approved is signed.

As in Kubernetes, whoever approves needs the verb `approve`, and whoever signs `sign`, on the signer by its name or by its
domain's `*`; what is asked for never changes after it was created, and nobody gets into system:masters this way. Only client
certificates for this API server are signed here; other signers are somebody else's.
"""

from __future__ import annotations

import asyncio
import base64

from cryptography import x509
from cryptography.x509.oid import NameOID

from corral.core import errors
from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj, spec_of, status_of
from corral.server.access.authorization import MASTERS, Authorizer
from corral.server.access.certificates import Authority
from corral.server.access.rbac import Attributes
from corral.server.verbs.options import Clock
from corral.store import Event, ObjectKey, Stale, Store

BUCKET = "certificatesigningrequests.certificates.k8s.io"
GROUP = "certificates.k8s.io"
SIGNER = "kubernetes.io/kube-apiserver-client"
MAX_S = 365 * 24 * 3600
_ASKER = ("username", "uid", "groups", "extra")
_DECISIONS = ("Approved", "Denied")
_USAGES = frozenset({"client auth", "digital signature", "key encipherment"})


class CertificateRequests:
    """The plug-in that writes down who asks for a certificate, and lets only those decide about it who may."""

    name = "CertificateApproval"
    kinds = ((GROUP, "CertificateSigningRequest"),)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, request: AdmissionRequest) -> bool:
        return request.resource.plural == "certificatesigningrequests" and request.operation in ("CREATE", "UPDATE")

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        obj = request.obj
        if obj is None:
            return None
        if request.operation == "CREATE":
            return {**obj, "spec": _asked_by(request, spec_of(obj))}
        old = request.old or {}
        kept = {**obj, "spec": spec_of(old)}
        if request.subresource == "status":
            kept["status"] = {**status_of(obj), "conditions": _decided_before(status_of(obj), status_of(old))}
        return kept

    async def validate(self, request: AdmissionRequest) -> None:
        obj = request.obj or {}
        signer = str(spec_of(obj).get("signerName") or "")
        if request.operation == "CREATE":
            if signer == SIGNER and MASTERS in organizations(spec_of(obj)):
                why = f"use of {SIGNER} signer with {MASTERS} group is not allowed"
                raise errors.forbidden(request.resource, request.name, why)
        elif request.subresource == "approval":
            self._require(request, "approve", signer)
        elif request.subresource == "status" and _signs(status_of(obj), status_of(request.old or {})):
            self._require(request, "sign", signer)

    def _require(self, request: AdmissionRequest, verb: str, signer: str) -> None:
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            if self._authorizer.allowed(request.user, Attributes(verb, GROUP, "signers", name=name)):
                return
        why = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise errors.forbidden(request.resource, request.name, why)


def _asked_by(request: AdmissionRequest, spec: Obj) -> Obj:
    """What is asked for, with who asks; what a client claims about itself is dropped."""
    user = request.user
    asker = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": user.extra}
    rest = {name: value for name, value in spec.items() if name not in _ASKER}
    return {**rest, **{name: value for name, value in asker.items() if value}}


def _decided_before(status: Obj, old: Obj) -> list[Obj]:
    """The conditions of a new status; the decisions among them are made by approval alone."""
    kept = [each for each in old.get("conditions") or () if each.get("type") in _DECISIONS]
    return kept + [each for each in status.get("conditions") or () if each.get("type") not in _DECISIONS]


def _signs(status: Obj, old: Obj) -> bool:
    """Whether a change of the status is one that a signer makes."""

    def said(of: Obj) -> tuple[object, bool]:
        return of.get("certificate"), any(each.get("type") == "Failed" for each in of.get("conditions") or ())

    return said(status) != said(old)


def organizations(spec: Obj) -> list[str]:
    """The groups a certificate request asks for; none when it cannot be read, as it will not be signed either."""
    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or "", validate=True))
        names = asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        return [str(each.value) for each in names]
    except (ValueError, TypeError):
        return []


def _check_signable(spec: Obj) -> None:
    """ValueError unless the request may become a client certificate for this server."""
    usages = set(spec.get("usages") or ())
    if "client auth" not in usages or not usages <= _USAGES:
        raise ValueError(f"invalid usages for client certificate: {sorted(usages)}")
    if MASTERS in organizations(spec):
        raise ValueError(f"a certificate for the group {MASTERS} is not signed")


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
            _check_signable(spec)
            request = base64.b64decode(spec.get("request") or "", validate=True)
            seconds = min(int(spec.get("expirationSeconds") or MAX_S), MAX_S)
            certificate = self._authority.sign_request(request, self._clock.now(), seconds)
            changed = {**status, "certificate": base64.b64encode(certificate).decode()}
        except (
            Exception
        ) as error:  # whatever is in a request, a key of a kind nobody knows for one: the next is signed all the same
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
