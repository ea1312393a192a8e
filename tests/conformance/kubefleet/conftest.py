"""The scenarios run on the simulated hub; its module is shared with the simulation tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "simulation" / "placement"))
sys.path.insert(0, str(Path(__file__).parent))
