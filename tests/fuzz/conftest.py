"""The families of bad input are modules beside their test: ``from fuzz.harness import …``."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))
