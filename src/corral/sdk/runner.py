"""The program that runs a function in its job. Its text goes with the job: it uses the standard library alone, of Python 3.8 or newer.

`python run.py INDEX MARK` loads the function and the arguments of call INDEX from its own folder, calls it, and prints what came of
it as the last lines of its output, each beginning with MARK. Only the first of several pods prints.
"""

import base64
import importlib
import importlib.util
import json
import os
import pickle
import runpy
import sys
import traceback
import types
from pathlib import Path
from typing import Any

MAX_RESULT = 64 * 1024
MAX_TEXT = 16 * 1024
LINE = 3000


class Misfit(Exception):
    """The function cannot be loaded, or its result not be sent; the text says what to do."""


def load(folder: Path) -> Any:
    """The function, as `call.json` says."""
    call = json.loads((folder / "call.json").read_text())
    sys.path[0:1] = [str(Path(path).absolute()) for path in call["paths"]]
    if importlib.util.find_spec("corral") is None:
        sys.modules["corral"] = undecorated()
    if call["form"] == "module":
        found = importlib.import_module(call["module"])
        names = vars(found)
    elif call["form"] == "script":
        names = runpy.run_path(call["script"], run_name="__corral_job__")
        vars(sys.modules["__main__"]).update({k: v for k, v in names.items() if not k.startswith("__")})
    elif call["form"] == "source":
        names = {"__name__": "__corral_job__", "corral": sys.modules.get("corral") or importlib.import_module("corral")}
        exec(compile((folder / "function.py").read_text(), call["name"] + " (source)", "exec"), names)
    else:
        return by_value(folder, call)
    function = names[call["name"]]
    return getattr(function, "__wrapped__", function)


def by_value(folder: Path, call: Any) -> Any:
    here = list(sys.version_info[:2])
    if here != call["python"]:
        sent, has = (".".join(map(str, version)) for version in (call["python"], here))
        raise Misfit(f"the function was sent from Python {sent} and cannot run on {has}")
    try:
        importlib.import_module("cloudpickle")
    except ImportError as error:
        raise Misfit(f"the function was sent with cloudpickle, which {sys.executable} has not") from error
    return pickle.loads((folder / "function.pickle").read_bytes())


def undecorated() -> types.ModuleType:
    """What stands for Corral where it is not installed: the decorator, which does nothing in a job."""
    module = types.ModuleType("corral")
    module.job = lambda function=None, **options: function or (lambda it: it)  # type: ignore[attr-defined]
    return module


def plain(value: Any) -> Any:
    """Numbers of array libraries are numbers."""
    if getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(type(value).__name__)


def encoded(value: Any, form: str) -> Any:
    """The value as it travels."""
    if form == "pickle":
        text = base64.b64encode(pickle.dumps(value, protocol=4)).decode()
        size = len(text)
    else:
        text = value
        try:
            size = len(json.dumps(value, default=plain))
        except (TypeError, ValueError) as error:
            raise Misfit(
                f"the result is not plain data (None, numbers, texts, lists, dictionaries): {error}; return what is, or say "
                'result="pickle" if you trust what the job returns'
            ) from error
    if size > MAX_RESULT:
        raise Misfit(
            f"the result has {size} bytes, and {MAX_RESULT} come back at most: write it to storage and return where it is"
        )
    return text


def outcome(folder: Path, index: str) -> Any:
    """What came of a call."""
    try:
        function = load(folder)
        arguments, named = pickle.loads((folder / "arguments" / index).read_bytes())
        form = json.loads((folder / "call.json").read_text())["result"]
        return {"ok": True, "form": form, "value": encoded(function(*arguments, **named), form)}
    except Misfit as error:
        return {"ok": False, "misfit": str(error)}
    except BaseException as error:  # also SystemExit: the caller is to know
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return {"ok": True, "form": "json", "value": None}
        traceback.print_exc()
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return {
            "ok": False,
            "type": type(error).__name__,
            "message": str(error)[:MAX_TEXT],
            "traceback": text[-MAX_TEXT:],
        }


def main() -> int:
    index, mark = sys.argv[1:]
    found = outcome(Path(__file__).parent, index)
    if os.environ.get("RANK", os.environ.get("JOB_COMPLETION_INDEX", "0")) == "0":
        text = base64.b64encode(json.dumps(found, default=plain).encode()).decode()
        pieces = [text[at : at + LINE] for at in range(0, len(text), LINE)]
        lines = [f"{mark} {number}/{len(pieces)} {piece}" for number, piece in enumerate(pieces, 1)]
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
        sys.stdout.flush()
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    os.environ["CORRAL_IN_JOB"] = "1"
    sys.exit(main())
