"""A key management service, reached through a program of the administrator's: it keeps the key that wraps the keys of a state.

The program is called with one word more, `encrypt` or `decrypt`, gets bytes on its standard input, and answers with bytes on its standard
output and exit status 0. It is called when a key is made and when a state is opened, never for single objects.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

TIMEOUT_S = 30.0
LONGEST = 64 * 1024
"""No wrapped key is longer: what is, is not one."""


class ProviderError(Exception):
    """The program does not do its work; the message says which, and what it said."""


class KeyProvider:
    """Wraps and unwraps keys."""

    def __init__(self, program: Sequence[str]) -> None:
        self._program = list(program)

    def __str__(self) -> str:
        return shlex.join(self._program)

    def wrap(self, key: bytes) -> bytes:
        return self._call("encrypt", key)

    def unwrap(self, wrapped: bytes) -> bytes:
        return self._call("decrypt", wrapped)

    def _call(self, verb: str, data: bytes) -> bytes:
        try:
            done = subprocess.run(
                [*self._program, verb], input=data, capture_output=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise ProviderError(
                f"the encryption provider `{self} {verb}` did not answer within {TIMEOUT_S:.0f} s"
            ) from None
        except OSError as error:
            raise ProviderError(f"the encryption provider `{self}` cannot be run: {error.strerror}") from error
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").split())[-500:]
            raise ProviderError(
                f"the encryption provider `{self} {verb}` failed with {done.returncode}: {said or 'it said nothing'}"
            )
        if not 0 < len(done.stdout) <= LONGEST:
            raise ProviderError(f"the encryption provider `{self} {verb}` answered with {len(done.stdout)} bytes")
        return done.stdout
