"""Which changes of an object a controller looks at."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj, generation_of, labels_of
from corral.runtime.changes import changed

OBJECT: Obj = {"metadata": {"name": "a", "generation": 1, "labels": {"x": "1"}}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, OBJECT, True, id="it comes"),
        pytest.param(OBJECT, None, True, id="it goes"),
        pytest.param(OBJECT, {**OBJECT, "status": {"ready": True}}, False, id="a part that does not matter"),
        pytest.param(OBJECT, {"metadata": {**OBJECT["metadata"], "generation": 2}}, True, id="the first part"),
        pytest.param(OBJECT, {"metadata": {**OBJECT["metadata"], "labels": {}}}, True, id="the last part"),
    ],
)
def test_a_change_concerns_whom_its_parts_matter_to(old: Obj | None, new: Obj | None, expected: bool) -> None:
    assert changed(generation_of, labels_of)(old, new) is expected
