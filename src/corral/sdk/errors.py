"""Everything the Python API raises and warns of. The sentences are those of the command line."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from corral.client.kubeconfig import KubeconfigError
from corral.core.errors import ApiError, NotFound
from corral.inspect.failures import sentence_of
from corral.inspect.naming import UnknownName
from corral.submit.errors import SubmitError

KNOWN: Final = (
    "ArithmeticError", "AssertionError", "AttributeError", "IndexError", "KeyError", "LookupError", "MemoryError",
    "NotImplementedError", "OverflowError", "RuntimeError", "TypeError", "ValueError", "ZeroDivisionError",
)  # fmt: skip
"""Exceptions that come home as themselves: those of the language that need nothing but a text."""


class CorralError(Exception):
    """Something could not be done; the text says what is wrong and what to do. What a server answered is its `__cause__`."""


class NotFoundError(CorralError):
    """What was named is not there; the text says what is."""


class WaitTimeoutError(CorralError, TimeoutError):
    """Time ran out before what was waited for had come."""


class JobFailedError(CorralError):
    """A job ended without success."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """What its program returned."""


class JobWarning(UserWarning):
    """Something keeps a job that is waited for from running, and may do so for ever; each thing is warned of once."""


class RemoteError(JobFailedError):
    """A function raised an exception in its job. One of the language's own, such as ValueError, is caught by that name as well."""

    def __init__(self, type_name: str, message: str, traceback: str) -> None:
        text = f"{type_name}: {message}" if message else type_name
        super().__init__(f"{text}\n\nIn the job:\n{traceback}" if traceback else text)
        self.type_name = type_name
        """The class of the exception, by its name."""
        self.remote_message = message
        """Its text."""
        self.remote_traceback = traceback
        """Where it was raised, as the job printed it."""

    def __str__(self) -> str:  # KeyError shows the representation of its text
        return str(self.args[0])


def remote_error(type_name: str, message: str, traceback: str) -> RemoteError:
    """What a function raised, as an exception to raise here. Its class is chosen by name from a short list, never made by the job."""
    if type_name not in KNOWN:
        return RemoteError(type_name, message, traceback)
    kind = type(f"Remote{type_name}", (RemoteError, getattr(builtins, type_name)), {"__module__": __name__})
    raised: RemoteError = kind(type_name, message, traceback)
    return raised


@contextmanager
def as_corral_errors() -> Iterator[None]:
    """What goes wrong below, with the sentence a user of the command line reads."""
    try:
        yield
    except (NotFound, UnknownName) as error:
        raise NotFoundError(str(error)) from error
    except (ApiError, KubeconfigError, SubmitError) as error:
        raise CorralError(sentence_of(error)) from error
