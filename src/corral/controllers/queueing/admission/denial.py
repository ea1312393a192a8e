"""How a refusal reads: as the webhook of the same name would have put it."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.errors import Cause, Forbidden


def deny(webhook: str, causes: Sequence[Cause]) -> None:
    """Raise the refusal of `webhook` when there are causes for one."""
    if causes:
        raise Forbidden(f'admission webhook "{webhook}" denied the request: {aggregate(causes)}')


def aggregate(causes: Sequence[Cause]) -> str:
    """One error as it is, several in brackets, each once."""
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
