"""The Python API as a whole: what it costs to import, what it is called, and its tables."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest

import corral
from corral import CorralError, JobStatus, QueueRow, Table
from corral.runtime.threads import CallThread, LoopThread
from corral.sdk.errors import remote_error
from corral.sdk.options import check_options, request_for
from corral.submit.errors import SubmitError

ROOT = Path(__file__).parents[3]


def imported(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print('\\n'.join(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_corral_loads_nothing() -> None:
    assert imported("import corral") <= {"corral", "typing", *imported("import typing")}


def test_a_client_does_not_load_servers_or_controllers() -> None:
    loaded = imported("from corral import Client")
    assert "corral.sdk.blocking" in loaded
    rooms = {name.split(".")[1] for name in loaded if name.startswith("corral.")}
    assert rooms & {"server", "controllers", "clusters", "node", "store", "cli"} == set()


def test_every_public_name_is_there_for_people_and_for_type_checkers() -> None:
    tree = ast.parse((ROOT / "src" / "corral" / "__init__.py").read_text())
    typed = {name.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    assert typed - {None} == set(corral._WHERE)
    for name in corral._WHERE:
        assert getattr(corral, name).__doc__
        assert name in dir(corral)
    with pytest.raises(AttributeError, match="module 'corral' has no attribute 'Cleint'"):
        _ = corral.Cleint  # type: ignore[attr-defined]


def queues() -> Table[QueueRow]:
    return Table(QueueRow, [QueueRow("default", "<b>", "cq", 1, 2, True)])


def test_a_table_is_a_sequence_that_shows_itself() -> None:
    table = queues()
    assert table[0].pending == 1
    assert len(table) == 1
    assert repr(table).splitlines()[0].startswith("NAMESPACE  NAME")
    assert "<td>&lt;b&gt;</td>" in table._repr_html_()
    assert "&lt;b&gt;" in JobStatus("job/a", "queued", "<b>")._repr_html_()


def test_a_table_is_a_data_frame_where_pandas_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = types.ModuleType("pandas")
    pandas.DataFrame = lambda rows, columns: (rows, columns)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    rows, columns = queues().to_pandas()
    assert columns == ["namespace", "name", "cluster_queue", "pending", "admitted", "active"]
    assert rows[0]["admitted"] == 2
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CorralError, match="pandas is not installed here"):
        queues().to_pandas()


def test_an_option_there_is_not_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(SubmitError, match=r"there is no option memroy; did you mean memory\?"):
        check_options({"memroy": "1Gi"})
    request = request_for(("train.py",), {"gpus": 2, "cpus": 0.5, "env": {"A": "1"}}, "team")
    assert (request.gpus, request.cpus, request.environment, request.namespace) == (2, "0.5", {"A": "1"}, "team")


def test_an_exception_of_a_job_is_caught_by_the_name_it_has_in_the_language() -> None:
    assert isinstance(remote_error("ValueError", "x", "trace"), ValueError)
    other = remote_error("SystemExit", "x", "trace")
    assert not isinstance(other, SystemExit)
    assert "In the job:\ntrace" in str(remote_error("KeyError", "x", "trace"))


async def test_a_loop_beside_a_loop() -> None:
    loop = LoopThread()

    async def numbers() -> object:
        for number in range(3):
            yield number

    assert list(loop.iterate(numbers())) == [0, 1, 2]  # type: ignore[arg-type]
    calls = CallThread()
    assert await calls.call(sum, [1, 2]) == 3
    with pytest.raises(ZeroDivisionError):
        await calls.call(lambda: 1 // 0)
    calls.close()
