"""Build hook: make the native library and ship it in a wheel for any Python on this platform."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "llamapy/ffi/libllamapy.so"


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]
    """ctypes needs no Python ABI, so one wheel serves every Python: `py3-none-<platform>`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for tool in ("make", os.environ.get("CC", "cc").split()[0]):
            if shutil.which(tool) is None:
                raise RuntimeError(f"llamapy builds a C library: '{tool}' is needed and not found")
        jobs = min(os.cpu_count() or 1, 8)
        made = subprocess.run(["make", "-C", str(Path(self.root, "native")), f"-j{jobs}"])
        if made.returncode or not Path(self.root, LIBRARY).exists():
            raise RuntimeError(f"make -C native failed ({made.returncode}); its messages are above")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(LIBRARY)
