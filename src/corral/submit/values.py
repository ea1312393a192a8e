"""Whether what somebody asked for is something that can be asked for, said in his own words before a cluster hears of it."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from corral.core import names
from corral.core.quantity import Quantity, QuantityError
from corral.submit.errors import SubmitError

if TYPE_CHECKING:
    from corral.submit.request import Request

TEXTS: Final = (
    "kind", "name", "namespace", "queue", "priority", "cpus", "memory", "gpu_resource", "image", "python", "requirements",
)  # fmt: skip
COUNTS: Final = {"workers": 1, "gpus": 0, "retries": 0}
"""What is counted, and the least of each."""
MAX_NAME: Final = 63
LEAST_MEMORY: Final = 2**20
"""Nothing runs in less: whoever asks for 4 means 4Gi."""
_UNIT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)i?b?\s*", re.IGNORECASE)


def check_values(request: Request) -> None:
    """Raises SubmitError for the first value that cannot be meant."""
    for name in TEXTS:
        if not isinstance(value := getattr(request, name), str):
            raise SubmitError(f"{name} is {value!r}, and has to be a text")
    for name, least in COUNTS.items():
        value = getattr(request, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise SubmitError(f"{name} is {value!r}, and has to be a whole number, {least} or more")
    for variable in request.environment:
        if not isinstance(variable, str) or not variable or "=" in variable or "\0" in variable:
            raise SubmitError(f"{variable!r} cannot be the name of an environment variable")
    if request.name and (len(request.name) > MAX_NAME or names.check_subdomain(request.name)):
        raise SubmitError(_about_name(request.name))
    if request.cpus:
        _amount("cpus", request.cpus, "write a number such as 2, 0.5 or 500m")
    if request.memory:
        _check_memory(request.memory)


def slug(word: str, length: int = MAX_NAME) -> str:
    """The letters of a word that a name may have, without their accents; empty where there are none."""
    plain = (c for c in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(c))
    letters = "".join(c if c.isalnum() and c.isascii() else "-" for c in plain).strip("-")
    return re.sub("-{2,}", "-", letters)[:length].rstrip("-")


def _about_name(name: str) -> str:
    close = slug(name)
    hint = f"; did you mean {close}?" if close and close != name else ""
    return f"name {name!r}: a name has lower-case letters, digits and '-', at most {MAX_NAME} of them{hint}"


def _check_memory(text: str) -> None:
    nanos = _amount("memory", text, "write an amount such as 500Mi or 4Gi")
    if nanos < LEAST_MEMORY * 10**9:
        raise SubmitError(f"memory {text!r} is less than a mebibyte{_perhaps(text)}")


def _amount(name: str, text: str, advice: str) -> int:
    try:
        nanos = Quantity.parse(text).nanos
    except QuantityError as error:
        meant = _perhaps(text) if name == "memory" else ""
        raise SubmitError(f"{name} {text!r} is no amount{meant or f'; {advice}'}") from error
    if nanos < 0:
        raise SubmitError(f"{name} {text!r} is less than nothing; {advice}")
    return nanos


def _perhaps(text: str) -> str:
    """What people write who do not know how Kubernetes writes it."""
    found = _UNIT.fullmatch(text)
    if found is None:
        return ""
    unit = found[2].upper() or "G"
    return f"; did you mean {found[1]}{unit}i?" if unit != "K" else f"; did you mean {found[1]}Mi?"
