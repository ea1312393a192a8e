"""The API under test: see api_setup."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from api_setup import HandClock, kinds

from corral.kinds.machinery.registry import Registry
from corral.runtime.random import Random
from corral.server.api import Api
from corral.store import Store


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def api(clock: HandClock) -> Api:
    return Api(Store(now=clock.now), Registry(kinds()), clock=clock, random=Random(1), builtin_admission=False)
