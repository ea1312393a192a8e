"""Make the notation here and the case runner next door importable, whatever the import mode."""

import sys
from pathlib import Path

HERE = Path(__file__).parent

for folder in (HERE.parent, HERE):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
