"""Who may look at the page, and as whom: a token for whoever started it, a cluster's bearer token for everybody else.

A login becomes a session, and the session's id a cookie. Whoever has the printed token reads as the user of the kubeconfig; whoever
shows a bearer token of the cluster reads as its owner, and the cluster decides what that is.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from threading import Lock

from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.core.errors import ApiError
from corral.kinds.kubernetes.authentication import SELF_SUBJECT_REVIEWS
from corral.runtime import secrets

MAX_SESSIONS = 1000
MAX_TOKEN = 16 * 1024

NOT_GOOD = "This token is neither the one `corral dashboard` printed nor one the cluster accepts."

Known = Callable[[Access], bool]


def is_known(access: Access) -> bool:
    """Whether the cluster knows the owner of a bearer token."""
    client = SyncClient(access)
    try:
        client.create(SELF_SUBJECT_REVIEWS, {})
    except ApiError as error:
        if error.code == 401:
            return False
        raise
    finally:
        client.close()
    return True


class Logins:
    """The sessions of one page; its questions come from several threads."""

    def __init__(self, access: Access, known: Known = is_known) -> None:
        self.token = secrets.token()
        self._access = access
        self._known = known
        self._sessions: dict[str, Access] = {}
        self._lock = Lock()

    def log_in(self, token: str) -> str | None:
        """The id of a new session, None for a token that is no good."""
        access = self._access_of(token)
        if access is None:
            return None
        session = secrets.token()
        with self._lock:
            self._sessions[session] = access
            while len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return session

    def opens(self, token: str) -> bool:
        """Whether it is the printed token; takes as long for any that is not."""
        return hmac.compare_digest(token.encode(errors="replace"), self.token.encode())

    def _access_of(self, token: str) -> Access | None:
        if self.opens(token):
            return self._access
        if not token or len(token) > MAX_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            return None
        viewer = as_bearer(self._access, token)
        return viewer if self._known(viewer) else None

    def viewer(self, session: str) -> Access | None:
        """As whom a session reads."""
        with self._lock:
            return self._sessions.get(session)

    def is_own(self, viewer: Access) -> bool:
        """Whether a viewer is the user of the kubeconfig, and not the owner of another token."""
        return viewer is self._access

    def log_out(self, session: str) -> None:
        with self._lock:
            self._sessions.pop(session, None)


def as_bearer(access: Access, token: str) -> Access:
    """The same cluster with nothing of the kubeconfig's user but where it is."""
    return replace(
        access, token=token, certificate=b"", key=b"", token_file="", exec=None, username="", password=""
    )  # fmt: skip


def cookie_name(port: int) -> str:
    """Browsers do not keep cookies of different ports apart."""
    return f"corral-{port}"


def session_of(header: str, port: int) -> str:
    """The session a Cookie header names; nothing where it is not one."""
    try:
        found = SimpleCookie(header).get(cookie_name(port))
    except CookieError:
        return ""
    return found.value if found is not None else ""


def session_cookie(session: str, port: int, *, secure: bool) -> str:
    """Kept from scripts and from the pages of others; an empty session makes the browser forget it."""
    parts = [f"{cookie_name(port)}={session}", "Path=/", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, *(["Secure"] if secure else []), *([] if session else ["Max-Age=0"])])
