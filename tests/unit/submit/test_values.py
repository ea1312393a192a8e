"""What cannot be meant is refused in the words it was asked in, before a cluster hears of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj
from corral.jobs.framework.registry import made_from
from corral.jobs.framework.submission import Submission
from corral.sdk.options import request_for
from corral.submit.errors import SubmitError
from corral.submit.request import Request, queue_for


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"memory": "4GB"}, "memory '4GB' is no amount; did you mean 4Gi?"),
        ({"memory": "1.5g"}, "memory '1.5g' is no amount; did you mean 1.5Gi?"),
        ({"memory": "lots"}, "memory 'lots' is no amount; write an amount such as 500Mi or 4Gi"),
        ({"memory": "4"}, "memory '4' is less than a mebibyte; did you mean 4Gi?"),
        ({"memory": "400m"}, "memory '400m' is less than a mebibyte; did you mean 400Mi?"),
        ({"memory": "-4Gi"}, "memory '-4Gi' is less than nothing"),
        ({"cpus": "abc"}, "cpus 'abc' is no amount; write a number such as 2, 0.5 or 500m"),
        ({"cpus": "-1"}, "cpus '-1' is less than nothing"),
        ({"workers": 0}, "workers is 0, and has to be a whole number, 1 or more"),
        ({"workers": 1.5}, "workers is 1.5, and has to be a whole number"),
        ({"gpus": -1}, "gpus is -1, and has to be a whole number, 0 or more"),
        ({"gpus": "two"}, "gpus is 'two', and has to be a whole number"),
        ({"gpus": True}, "gpus is True, and has to be a whole number"),
        ({"retries": None}, "retries is None, and has to be a whole number"),
        ({"queue": 5}, "queue is 5, and has to be a text"),
        ({"name": "Bad Name"}, "name 'Bad Name': a name has lower-case letters, .* did you mean bad-name?"),
        ({"name": "x" * 64}, "at most 63 of them; did you mean x{63}"),
        ({"name": "✓"}, "at most 63 of them$"),
        ({"name": "Prüfe Modell"}, "did you mean prufe-modell?"),
        ({"environment": {"": "1"}}, "'' cannot be the name of an environment variable"),
        ({"environment": {"A=B": "1"}}, "'A=B' cannot be the name of an environment variable"),
        ({"fetch": ("../up",)}, r"\.\./up cannot be fetched: name what the program writes by its place in the folder"),
        ({"fetch": ("/etc",)}, "/etc cannot be fetched"),
        ({"fetch": ("",)}, "nothing cannot be fetched"),
        (
            {"fetch": ("m.pt",), "in_place": True},
            "m.pt needs no fetching: in place, what the program writes is in the folder",
        ),
        ({"fetch": ("m.pt",), "sends_folder": False}, "and no folder is sent"),
        ({"program": ("echo hi",)}, "there is no program 'echo hi'; write the words of a command apart: echo hi"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_what_was_meant(values: dict[str, Any], says: str) -> None:
    with pytest.raises(SubmitError, match=says.replace("?", r"\?")):
        Request(**{"program": ("train",), **values}).check()


def test_what_people_ask_for_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "my train.py").touch()
    Request(
        program=("my train.py",), folder=tmp_path, name="a.b-1", cpus="0.5", memory="4G", gpus=8, workers=2,
        environment={"A B": "1", "ä": "2"},
    ).check()  # fmt: skip


def test_what_is_fetched_is_a_list() -> None:
    assert request_for(("train",), {"fetch": ["a.pt", "plots"]}, "default").fetch == ("a.pt", "plots")
    with pytest.raises(
        SubmitError, match=r"fetch is 'a.pt', and has to be a list of files and folders, such as \['model.pt'\]"
    ):
        request_for(("train",), {"fetch": "a.pt"}, "default")


def test_numbers_of_python_are_amounts() -> None:
    made = request_for(("train",), {"cpus": 2, "memory": "1Gi"}, "default")
    assert (made.cpus, made.memory) == ("2", "1Gi")
    with pytest.raises(SubmitError, match=r"env is \['A=1'\], and has to name values"):
        request_for(("train",), {"env": ["A=1"]}, "default")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"sends_folder": False}, "running in place needs the folder"),
        ({"files": {"a": b""}}, "functions cannot run in place"),
    ],
)
def test_what_cannot_run_in_its_folder_is_told_why(values: dict[str, Any], says: str) -> None:
    with pytest.raises(SubmitError, match=says):
        Request(**{"program": ("train",), "in_place": True, **values}).check()


def test_in_place_nothing_is_packed_and_packages_have_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "needs.txt").touch()
    request = Request(program=("train",), folder=tmp_path, in_place=True, requirements="needs.txt")
    request.check()
    assert request.archive() is None
    wanted = Submission(
        name="a",
        namespace="default",
        command=("train",),
        image="python",
        folder=str(tmp_path),
        requirements="needs.txt",
    )
    pod = made_from("job", wanted)["spec"]["template"]["spec"]
    assert pod["containers"][0]["workingDir"] == str(tmp_path)
    assert [one["name"] for one in pod["initContainers"]] == ["requirements"]
    assert pod["initContainers"][0]["workingDir"] == str(tmp_path)
    folder = {"name": "folder", "hostPath": {"path": str(tmp_path), "type": "Directory"}}
    assert pod["volumes"] == [folder, {"name": "workspace", "emptyDir": {}}]
    assert pod["containers"][0]["volumeMounts"][0] == {"name": "folder", "mountPath": str(tmp_path)}


class Cluster:
    """A cluster without queues, whose namespaces are known or not to be seen."""

    def __init__(self, namespaces: list[str] | None) -> None:
        self.namespaces = namespaces

    def list(self, resource: Any, namespace: str = "") -> Obj:
        named = (self.namespaces or ()) if resource.kind == "Namespace" else ()
        return {"items": [{"metadata": {"name": name}} for name in named]}

    def get(self, resource: Any, name: str) -> Obj:
        if self.namespaces is None:
            raise Forbidden("namespaces is forbidden")
        if name not in self.namespaces:
            raise NotFound(f'namespaces "{name}" not found')
        return {}


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (
            ["apps-system", "default", "kube-system", "team"],
            "there is no namespace tema; there are default, team, apps-system, kube-system",
        ),
        (["tema"], "namespace tema has no queue; `corral queue create` makes one"),
        (None, "namespace tema has no queue"),
    ],
)
def test_a_namespace_that_is_not_there_is_not_one_without_queues(known: list[str] | None, says: str) -> None:
    with pytest.raises(Exception, match=says):
        queue_for(Cluster(known), "tema", "")  # type: ignore[arg-type]
