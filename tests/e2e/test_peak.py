"""What was planned is what the process takes at its peak, within 3 %."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import llamapy
from llamapy.base.paths import DEMO, find_model

ROOT = Path(llamapy.__file__).parent.parent


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak as Linux counts it")
def test_the_peak_of_a_run_is_the_planned_one() -> None:
    if find_model(DEMO) is None:
        pytest.skip("the demo model is not there: llamapy pull demo")
    command = [sys.executable, "bench/peak.py", "-m", "demo", "-c", "512"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[4] for line in lines] == ["off", "auto"]
    assert not any("TOO FAR" in line for line in lines), done.stdout
