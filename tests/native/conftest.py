"""Lets the tests here import harness.py and the cases beside it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
