"""-o takes kubectl's formats, and answers others with those there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from corral.cli.output.formats import parse_format, print_objects

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "managedFields": [{}]}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shell"}}


@pytest.mark.parametrize("text", ["yml", "jsonpath", "jsonpath=", "table=x", "custom-columns"])
def test_a_format_that_is_none_is_answered_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns="):
        parse_format(text)


def test_one_object_is_itself_and_several_are_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects(parse_format("json"), [JOB], is_single=True)
    assert json.loads(capsys.readouterr().out) == {**JOB, "metadata": {"name": "train"}}
    print_objects(parse_format("yaml"), [JOB, POD], is_single=False)
    listed = yaml.safe_load(capsys.readouterr().out)
    assert (listed["kind"], [item["kind"] for item in listed["items"]]) == ("List", ["Job", "Pod"])


def test_names_carry_their_kind(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects(parse_format("name"), [JOB, POD], is_single=False)
    assert capsys.readouterr().out == "job.batch/train\npod/shell\n"


def test_a_template_may_be_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "names").write_bytes("﻿{.metadata.name}\n".encode())
    print_objects(parse_format(f"jsonpath-file={tmp_path / 'names'}"), [POD], is_single=True)
    assert capsys.readouterr().out == "shell\n"
