"""How functions travel to their jobs, and what comes back."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.sdk.calls import FOLDER, IN_JOB, pack_call, read_result
from corral.sdk.errors import CorralError, RemoteError
from corral.submit.archive import pack
from corral.submit.errors import SubmitError

MARK = "corral-result-1"


def run(tmp_path: Path, files: dict[str, bytes], index: int = 0, **environment: str) -> list[str]:
    """What the program of a call prints, alone in a folder."""
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    command = [sys.executable, f"{FOLDER}/run.py", str(index), MARK]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    return done.stdout.splitlines()


def in_script(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A script that packs one of its own functions and says what it packed."""
    packs = textwrap.dedent(
        """
        import json, os, sys
        sys.modules["cloudpickle"] = None  # as where it is not installed
        if __name__ == "__main__":
            from corral.sdk.calls import pack_call
            packed = pack_call(function, [((2,), {})], "json", None)
            folder = str(packed.folder) if packed.folder else None
            print(json.dumps({"files": {k: v.decode("latin-1") for k, v in packed.files.items()}, "folder": folder}))
        """
    )
    (tmp_path / "script.py").write_text(textwrap.dedent(text) + packs)
    return subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)


def test_a_function_of_a_module_is_found_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src" / "package").mkdir(parents=True)
    (tmp_path / "src" / "package" / "__init__.py").write_text("")
    (tmp_path / "src" / "package" / "work.py").write_text(
        "import corral\n\n@corral.job(gpus=1)\ndef twice(x, *, plus=0):\n    return 2 * x + plus\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "src")
    monkeypatch.chdir(tmp_path)
    from package.work import twice  # type: ignore[import-not-found]

    packed = pack_call(twice, [((1,), {}), ((2,), {"plus": 1})], "json", None)
    assert packed.folder == tmp_path
    assert read_result(run(tmp_path, packed.files), MARK, trusts_pickle=False) == 2
    assert read_result(run(tmp_path, packed.files, 1), MARK, trusts_pickle=False) == 5
    assert run(tmp_path, packed.files, RANK="1") == [], "only the first of several pods answers"


def test_a_function_of_a_script_is_found_there_again_with_its_classes(tmp_path: Path) -> None:
    done = in_script(tmp_path, "def function(x):\n    return helper(x)\n\ndef helper(x):\n    return x + 1\n")
    packed = json.loads(done.stdout)
    assert packed["folder"] == str(tmp_path)
    files = {name: text.encode("latin-1") for name, text in packed["files"].items()}
    assert read_result(run(tmp_path, files), MARK, trusts_pickle=False) == 3


def test_a_function_inside_another_needs_to_stand_alone_or_cloudpickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    here = 1

    def alone(x: textwrap.Dedent) -> int:  # type: ignore[name-defined]
        import math

        return math.floor(x) + 1

    def leaning(x: int) -> int:
        return x + here

    packed = pack_call(alone, [((2.5,), {})], "json", None)
    assert packed.folder is None
    assert read_result(run(tmp_path, packed.files), MARK, trusts_pickle=False) == 3
    with pytest.raises(SubmitError, match="leaning uses here from outside: import and define what it needs inside it"):
        pack_call(leaning, [], "json", None)


def test_with_cloudpickle_a_function_takes_along_what_it_leans_on(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    here = 40
    packed = pack_call(lambda x: x + here, [((2,), {})], "json", None)
    assert read_result(run(tmp_path, packed.files), MARK, trusts_pickle=False) == 42


def test_jobs_do_not_submit_jobs_by_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IN_JOB, "1")
    with pytest.raises(SubmitError, match="this already runs in a job"):
        pack_call(run, [], "json", None)


@pytest.mark.parametrize(
    ("body", "raises", "says"),
    [
        ("raise KeyError('k')", KeyError, "KeyError: 'k'"),
        ("raise type('Own', (Exception,), {})('x')", RemoteError, "Own: x"),
        ("import sys; sys.exit(3)", RemoteError, "SystemExit: 3"),
        ("return object()", CorralError, "is not plain data"),
        ("return 'x' * 100_000", CorralError, "the result has 100002 bytes, and 65536 come back at most"),
        ("return float('nan'), {'a': [None, True]}", None, ""),
    ],
)
def test_what_comes_of_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, raises: type[Exception] | None, says: str
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    (tmp_path / "module_of_call.py").write_text(f"def function():\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "module_of_call", raising=False)
    monkeypatch.chdir(tmp_path)
    from module_of_call import function  # type: ignore[import-not-found]

    lines = run(tmp_path, pack_call(function, [((), {})], "json", None).files)
    if raises is None:
        assert read_result(lines, MARK, trusts_pickle=False)[1] == {"a": [None, True]}
        return
    with pytest.raises(raises, match=says):
        read_result(lines, MARK, trusts_pickle=False)


def marked(outcome: Any, pieces: int = 1) -> list[str]:
    text = base64.b64encode(outcome if isinstance(outcome, bytes) else json.dumps(outcome).encode()).decode()
    size = -(-len(text) // pieces)
    return [f"{MARK} {n + 1}/{pieces} {text[n * size : (n + 1) * size]}" for n in range(pieces)]


class Bomb:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return pytest.fail, ("a pickle that nobody trusts was read",)


@pytest.mark.parametrize(
    ("lines", "raises", "says"),
    [
        (["nothing"], LookupError, MARK),
        ([f"{MARK} 1/2 e30="], LookupError, MARK),
        ([f"{MARK} x/y z", f"{MARK} 1/1"], LookupError, MARK),
        ([f"{MARK} 1/1 !!!"], CorralError, "not a result"),
        (marked(b"[1]"), CorralError, "not a result"),
        (
            marked({"ok": True, "form": "pickle", "value": base64.b64encode(pickle.dumps(Bomb())).decode()}),
            CorralError,
            "runs code when it is read",
        ),
    ],
)
def test_what_a_job_prints_is_data(lines: list[str], raises: type[Exception], says: str) -> None:
    with pytest.raises(raises, match=says):
        read_result(lines, MARK, trusts_pickle=False)


def test_of_several_tries_the_last_whole_one_counts() -> None:
    first, last = marked({"ok": True, "value": 1}, 3), marked({"ok": True, "value": 2}, 3)
    assert read_result([*first, *last], MARK, trusts_pickle=False) == 2
    assert read_result([*first, "in between", *last[:2]], MARK, trusts_pickle=False) == 1


def test_what_goes_with_a_call_is_packed_beside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert pack(tmp_path, files={"b": b"y"}).names == {"a", "b"}
    assert pack(None, files={"b": b"y"}).digest == pack(None, files={"b": b"y"}).digest
