"""What keeps a program from becoming a job, or a job from being what was asked for; the text says what to do."""

from __future__ import annotations


class SubmitError(Exception):
    """The job cannot be submitted, repeated or stopped like this."""


class PackingError(SubmitError):
    """The folder cannot be sent as it is."""
