"""The Secret that keeps the certificates of the webhook server, so that all its replicas serve with the same ones."""

from __future__ import annotations

import base64
import binascii
import logging
import re

from cryptography import x509

from corral.client.protocol import Client
from corral.clusters.webhooks import certificates
from corral.clusters.webhooks.certificates import Kept, Terms
from corral.clusters.webhooks.configurations import LABELS
from corral.core.errors import AlreadyExists, Conflict, NotFound
from corral.core.meta import Key, Obj
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.runtime.clock import Clock
from corral.server.access.certificates import Pair

log = logging.getLogger(__name__)

NAME = "corral-webhook-certificates"
_PEM = re.compile(rb"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----\n?", re.DOTALL)


class CertificateSecret:
    """Reads, makes and renews what is kept. `hosts` are the names to serve under."""

    def __init__(self, client: Client, clock: Clock, key: Key, hosts: list[str], terms: Terms) -> None:
        self._client = client
        self._clock = clock
        self.key = key
        self._hosts = hosts
        self.terms = terms

    async def current(self) -> Kept:
        """What is kept, made where nothing is."""
        try:
            kept = read(await self._client.get(SECRETS, self.key.name, self.key.namespace))
        except NotFound:
            return await self._make()
        return kept if kept is not None else await self.renew()

    async def renew(self) -> Kept:
        """What is kept, with what is due renewed."""
        try:
            secret = await self._client.get(SECRETS, self.key.name, self.key.namespace)
        except NotFound:
            return await self._make()
        now, kept = self._clock.now(), read(secret)
        if kept is None:
            log.warning("the Secret of the webhook certificates cannot be read; new ones are made")
        wanted = certificates.renewed(kept or self._first(now), self._hosts, now, self.terms)
        if wanted is kept:
            return wanted
        try:
            await self._client.update(SECRETS, {**secret, "data": written(wanted)})
        except Conflict:
            return await self.current()
        log.info("webhook certificates are renewed", extra={"secret": str(self.key)})
        return wanted

    async def _make(self) -> Kept:
        kept = self._first(self._clock.now())
        metadata = {"name": self.key.name, "namespace": self.key.namespace, "labels": LABELS}
        secret = {"metadata": metadata, "type": "Opaque", "data": written(kept)}
        try:
            await self._client.create(SECRETS, secret)
        except AlreadyExists:  # another replica was faster
            return await self.current()
        return kept

    def _first(self, now: float) -> Kept:
        return certificates.first(self._hosts, now, self.terms)


def written(kept: Kept) -> Obj:
    """The data of the Secret: authorities, the newest first, and what to serve with."""
    data = {
        "ca.crt": kept.bundle,
        "ca.key": b"".join(pair.key for pair in kept.authorities),
        "tls.crt": kept.serving.certificate,
        "tls.key": kept.serving.key,
    }
    return {name: base64.b64encode(value).decode() for name, value in data.items()}


def read(secret: Obj) -> Kept | None:
    """What a Secret keeps; None when that is not all there, or no certificates."""
    data = secret.get("data") or {}
    try:
        certificate, key = (base64.b64decode(data[name]) for name in ("tls.crt", "tls.key"))
        bundle, keys = (_PEM.findall(base64.b64decode(data[name])) for name in ("ca.crt", "ca.key"))
        authorities = tuple(Pair(*each) for each in zip(bundle, keys, strict=True))
        for pair in (*authorities, Pair(certificate, key)):
            x509.load_pem_x509_certificate(pair.certificate)
    except (KeyError, ValueError, binascii.Error):
        return None
    return Kept(authorities, Pair(certificate, key)) if authorities else None
