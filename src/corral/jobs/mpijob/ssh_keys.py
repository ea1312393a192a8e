"""Keys by which the pods of one MPI job trust each other."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from corral.core.meta import Obj, namespace_of, owner_ref
from corral.runtime.secrets import KeySource


def ssh_secret(owner: Obj, name: str, private_key: KeySource) -> Obj:
    """A kubernetes.io/ssh-auth Secret with a fresh ECDSA P-521 key pair."""
    key = private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    data = {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace_of(owner), "ownerReferences": [owner_ref(owner)]},
        "type": "kubernetes.io/ssh-auth",
        "data": {field: base64.b64encode(value).decode() for field, value in data.items()},
    }
