"""A function with its arguments on its way to a job, and what it returned on its way back.

There, a function is found again by its module or script, which go with the job, or, from a notebook, travels itself: with cloudpickle
where that is installed, else as its source. Arguments are pickled: they are the caller's own. What comes back was made by a job, and is
data until somebody says otherwise: JSON, and a pickle only where the caller asked for one.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import dis
import inspect
import json
import os
import pickle
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, Literal

from corral.sdk import runner
from corral.sdk.errors import CorralError, remote_error
from corral.submit.errors import SubmitError

FOLDER: Final = ".corral-call"
PROGRAM: Final = f"{FOLDER}/run.py"
IN_JOB: Final = "CORRAL_IN_JOB"
MARK: Final = "corral-result"

ResultForm = Literal["json", "pickle"]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Packed:
    """A function that is ready to travel."""

    files: dict[str, bytes]
    folder: Path | None
    """What has to go with it; nothing where it stands alone."""


def pack_call(function: Callable[..., Any], calls: Sequence[Arguments], result: str, workdir: Path | None) -> Packed:
    """A function and the arguments of each of its calls."""
    if os.environ.get(IN_JOB):
        raise SubmitError(
            'this already runs in a job: put what submits jobs under `if __name__ == "__main__":`, so that it does not run '
            "when the function is loaded"
        )
    if result not in ("json", "pickle"):
        raise SubmitError(f"result={result!r}: write json or pickle")
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        raise SubmitError(f"{function!r} is not a function; a method or an object that is called belongs into one")
    about, files, folder = _form(function, workdir)
    dumps = _dumps(about["form"])
    try:
        for index, call in enumerate(calls):
            files[f"{FOLDER}/arguments/{index}"] = dumps(call)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise SubmitError(f"an argument of {function.__name__} cannot be sent: {error}") from error
    files[f"{FOLDER}/call.json"] = json.dumps({"result": result, "paths": ["."], **about}).encode()
    files[PROGRAM] = Path(runner.__file__).read_bytes()
    return Packed(files, folder)


def _form(function: FunctionType, workdir: Path | None) -> tuple[dict[str, Any], dict[str, bytes], Path | None]:
    """How a function travels: what `call.json` says of it, its own files, and the folder it needs."""
    is_global = "<" not in function.__qualname__ and "." not in function.__qualname__
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if is_global and file and function.__module__ != "__main__":
        return _by_module(function, Path(file).absolute(), workdir)
    if (cloudpickle := _cloudpickle()) is not None:
        about = {"form": "value", "name": function.__name__, "python": list(sys.version_info[:2])}
        return about, {f"{FOLDER}/function.pickle": cloudpickle.dumps(function, protocol=4)}, workdir
    script = Path(function.__code__.co_filename).absolute()
    if (
        is_global and file and Path(file).absolute() == script
    ):  # what was typed into a prompt or a notebook is in no file
        folder = workdir or _folder_of(script.parent)
        if script.is_relative_to(folder):
            about = {"form": "script", "script": script.relative_to(folder).as_posix(), "name": function.__name__}
            return about, {}, folder
    return {"form": "source", "name": function.__name__}, {f"{FOLDER}/function.py": _source(function)}, workdir


def _by_module(
    function: FunctionType, file: Path, workdir: Path | None
) -> tuple[dict[str, Any], dict[str, bytes], Path | None]:
    depth = function.__module__.count(".") + (file.name == "__init__.py")
    root = file.parents[depth]
    about: dict[str, Any] = {"form": "module", "module": function.__module__, "name": function.__name__}
    if _is_installed(root):
        return about, {}, workdir
    folder = workdir or _folder_of(root)
    if not root.is_relative_to(folder):
        raise SubmitError(
            f"{function.__name__} is in {file}, which is not in {folder}, the folder that goes with the job"
        )
    return {**about, "paths": [root.relative_to(folder).as_posix(), "."]}, {}, folder


def _folder_of(root: Path) -> Path:
    here = Path.cwd()
    return here if root.is_relative_to(here) else root


def _is_installed(root: Path) -> bool:
    """Whether a module comes with the interpreter or its environment, and so is there where the interpreter is."""
    places = {Path(place).resolve() for place in (sys.prefix, sys.base_prefix)}
    return "site-packages" in root.parts or any(root.resolve().is_relative_to(place) for place in places)


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError:
        return None
    return cloudpickle


def _dumps(form: str) -> Callable[[Arguments], bytes]:
    if form == "value":
        return lambda call: bytes(_cloudpickle().dumps(call, protocol=4))
    return lambda call: pickle.dumps(call, protocol=4)


def _source(function: FunctionType) -> bytes:
    """The text of a function that needs nothing but itself."""
    install = "`pip install cloudpickle` lets it travel as it is"
    name = function.__name__
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError) as error:
        raise SubmitError(f"the source of {name} cannot be read; {install}, or put it into a file") from error
    definition = tree.body[0]
    code = function.__code__
    outside = sorted({*_outer_names(code), *code.co_freevars} - {name, "corral", *dir(builtins)})
    if not isinstance(definition, ast.FunctionDef) or outside:
        uses = f"uses {', '.join(outside)} from outside" if outside else "is not a plain function"
        raise SubmitError(f"{name} {uses}: import and define what it needs inside it, or {install}")
    definition.decorator_list = []
    return f"from __future__ import annotations\n{ast.unparse(definition)}\n".encode()


def _outer_names(code: CodeType) -> Iterator[str]:
    """The names a function looks up outside of itself."""
    yield from (str(step.argval) for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _outer_names(inner)


# The way back


def is_result(line: str, mark: str) -> bool:
    """Whether a line of the logs is part of a result, and nothing for people."""
    return line.startswith(mark + " ")


def read_result(lines: Iterable[str], mark: str, *, trusts_pickle: bool) -> Any:
    """What the function returned; raises what it raised. Raises LookupError where the lines hold no result."""
    found = _outcome(lines, mark)
    if not found.get("ok"):
        if "misfit" in found:
            raise CorralError(str(found["misfit"]))
        raise remote_error(str(found.get("type")), str(found.get("message") or ""), str(found.get("traceback") or ""))
    if found.get("form") != "pickle":
        return found.get("value")
    if not trusts_pickle:
        raise CorralError(
            'the job sent a pickle, which runs code when it is read; say result="pickle" if you trust what the job returns'
        )
    return pickle.loads(base64.b64decode(str(found.get("value"))))


def _outcome(lines: Iterable[str], mark: str) -> dict[str, Any]:
    """The last complete outcome among lines, for a job may have been tried several times."""
    pieces: dict[int, str] = {}
    found = ""
    for line in lines:
        parts = line.split()
        if not is_result(line, mark) or len(parts) != 3:
            continue
        number, _, total = parts[1].partition("/")
        if number.isdecimal() and total.isdecimal():
            pieces = {**pieces, int(number): parts[2]} if number != "1" else {1: parts[2]}
            if len(pieces) == int(total):
                found = "".join(pieces[place] for place in sorted(pieces))
    if not found:
        raise LookupError(mark)
    try:
        outcome = json.loads(base64.b64decode(found, validate=True))
        if isinstance(outcome, dict):
            return outcome
    except (binascii.Error, ValueError):
        pass
    raise CorralError("what came back from the job is not a result")
