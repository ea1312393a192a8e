"""certificates.k8s.io/v1: CertificateSigningRequest."""

from __future__ import annotations

from corral.core.meta import Obj, spec_of, status_of
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Cell, Column, Subresource
from corral.kinds.machinery.tables import AGE, NAME, NONE, human_duration, text


def _duration(obj: Obj, now: float) -> Cell:
    seconds = spec_of(obj).get("expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _condition(obj: Obj, now: float) -> Cell:
    status = status_of(obj)
    types = [entry.get("type", "") for entry in status.get("conditions") or ()]
    words = [word for word in ("Approved", "Denied", "Failed") if word in types] or ["Pending"]
    return ",".join(words + (["Issued"] if status.get("certificate") else []))


CERTIFICATE_SIGNING_REQUEST = kind(
    "certificates.v1.CertificateSigningRequest",
    "certificatesigningrequests",
    group="certificates.k8s.io",
    namespaced=False,
    short_names=("csr",),
    columns=(
        NAME,
        AGE,
        Column("SignerName", cell=text(".spec.signerName", NONE)),
        Column("Requestor", cell=text(".spec.username")),
        Column("RequestedDuration", cell=_duration),
        Column("Condition", cell=_condition),
    ),
    status=True,
    subresources=(Subresource("approval", "CertificateSigningRequest", ("get", "patch", "update")),),
    fields={"spec.signerName": lambda obj: spec_of(obj).get("signerName") or ""},
)

KINDS = (CERTIFICATE_SIGNING_REQUEST,)
