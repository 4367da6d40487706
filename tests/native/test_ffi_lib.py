"""Finding the library, its ABI and record layout, the kernel table and the choice of ISA."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from llamapy.base import flags
from llamapy.base.errors import LlamapyError, UsageError
from llamapy.ffi import lib
from llamapy.ffi.record import NO_SLOT, NODE, OPND, empty_nodes
from llamapy.graph.ops import OPS

INCLUDE = Path(__file__).parents[2] / "native/include"


@pytest.fixture(autouse=True)
def best_isa(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMAPY_ISA", raising=False)


def test_records_have_the_layout_of_the_header(tmp_path: Path) -> None:
    cc = shutil.which("cc") or shutil.which("gcc")
    if cc is None:
        pytest.skip("no C compiler to ask for the layout")
    structs = {"lp_node": NODE, "lp_opnd": OPND}
    lines = ['#include "lp.h"', "#include <stdio.h>", "int main(void) {"]
    for struct, dtype in structs.items():
        for field in dtype.names or ():
            size = f"sizeof(((struct {struct} *)0)->{field})"
            lines.append(f'printf("%zu %zu\\n", offsetof(struct {struct}, {field}), {size});')
    (tmp_path / "layout.c").write_text("\n".join([*lines, "return 0; }"]))
    program = tmp_path / "layout"
    subprocess.run([cc, "-I", INCLUDE, tmp_path / "layout.c", "-o", program], check=True)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    mine = [
        f"{dtype.fields[name][1]} {dtype.fields[name][0].itemsize}"
        for dtype in structs.values()
        if dtype.fields is not None
        for name in dtype.names or ()
    ]
    assert said.split("\n")[:-1] == mine


def test_constants_are_the_headers() -> None:
    text = (INCLUDE / "lp.h").read_text()
    defined = dict(re.findall(r"#define (LP_\w+) (\d+)u?\b", text))
    assert int(defined["LP_ABI"]) == lib.ABI
    assert int(defined["LP_MAX_SRC"]) == lib.MAX_SRC
    assert {n: int(defined[f"LP_{n.upper()}"]) for n in lib.FEATURES} == lib.FEATURES


def test_empty_nodes_have_no_addresses() -> None:
    nodes = empty_nodes(3)
    assert (nodes["dst"]["slot"] == NO_SLOT).all()
    assert (nodes["src"]["slot"] == NO_SLOT).all()
    assert not nodes["n_src"].any() and not nodes["dst"]["ne"].any()
    assert nodes["src"].shape == (3, lib.MAX_SRC)


def test_table_and_ops_agree() -> None:
    """Every family is an op; every op but the views has a kernel."""
    families = {k.family for k in lib.load().kernels}
    computed = {op.name for op in OPS.values() if not op.view}
    assert families <= computed, f"families that are no op: {families - computed}"
    assert computed <= families, f"ops without a kernel: {computed - families}"


def test_rows_need_what_their_isa_is_called() -> None:
    for row in lib.load().kernels:
        # a bit that implies another need not repeat it
        assert row.need & ~lib.ISAS[row.isa] == 0, row
        assert (row.need == 0) == (row.isa == "scalar"), row


def test_best_kernel_is_the_last_row_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = lib.load().kernels
    for key in {(k.family, k.wtype, k.xtype) for k in rows}:
        mine = [k for k in rows if (k.family, k.wtype, k.xtype) == key]
        fit = [k.index for k in mine if not k.need & ~lib.load().features]
        assert lib.best_kernel(*key) == fit[-1]
        monkeypatch.setenv("LLAMAPY_ISA", "scalar")
        assert lib.best_kernel(*key) == next(k.index for k in mine if k.isa == "scalar")
        monkeypatch.delenv("LLAMAPY_ISA")
    assert lib.best_kernel("add", "q4_1", "f32") is None
    assert lib.best_kernel("no such op", "f32", "f32") is None


def test_isa_may_be_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    if "avx512" not in lib.features():
        pytest.skip("needs a CPU with AVX-512")
    monkeypatch.setenv("LLAMAPY_ISA", "avx2")
    assert lib.allowed() == lib.FEATURES["avx2"]
    states = {line.isa: line for line in lib.isa_report()}
    assert states["avx2"].state == "chosen"
    assert states["avx512"].state == "refused"
    assert states["avx512"].reason == "lowered by LLAMAPY_ISA=avx2"
    assert states["scalar"].state == "available"
    assert states["neon"].state == "not compiled"
    monkeypatch.setenv("LLAMAPY_ISA", "avx512")
    assert lib.allowed() == lib.load().features & ~lib.FEATURES["vnni"]
    row = lib.best_kernel("mul_mat", "q4_0", "x8")
    assert row is not None and lib.load().kernels[row].isa == "avx512"
    if "vnni" in lib.features():
        monkeypatch.setenv("LLAMAPY_ISA", "avx512vnni")
        assert lib.allowed() == lib.load().features


def test_isa_takes_the_names_of_the_table() -> None:
    (flag,) = (f for f in flags.FLAGS if f.name == "LLAMAPY_ISA")
    assert flag.choices == tuple(lib.ISAS)


def test_isa_may_not_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = "neon" if "neon" not in lib.features() else "avx2"
    monkeypatch.setenv("LLAMAPY_ISA", foreign)
    with pytest.raises(UsageError, match=f"LLAMAPY_ISA={foreign}: this CPU has no {foreign}"):
        lib.best_kernel("add", "f32", "f32")
    monkeypatch.setenv("LLAMAPY_ISA", "sse9")
    with pytest.raises(UsageError, match="LLAMAPY_ISA=sse9: not one of scalar, avx2"):
        lib.best_kernel("add", "f32", "f32")


def test_report_refuses_what_the_cpu_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lib.load()
    if not any(k.isa == "avx2" for k in real.kernels):
        pytest.skip("no AVX2 rows in this build")
    poor = lib.Library(real.path, real.dll, 0, real.kernels, {})
    monkeypatch.setattr(lib, "load", lambda: poor)
    states = {line.isa: line for line in lib.isa_report()}
    assert states["scalar"].state == "chosen"
    assert states["avx2"].state == "refused"
    assert states["avx2"].reason == "CPU or system lacks avx2"
    assert lib.best_kernel("add", "f32", "f32") is not None


def test_a_missing_library_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LLAMAPY_LIB", str(tmp_path / "absent.so"))
    with pytest.raises(LlamapyError, match=r"absent\.so: no native library.*make native"):
        lib.load()


def test_something_else_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    monkeypatch.setenv("LLAMAPY_LIB", str(tmp_path / "text.so"))
    with pytest.raises(LlamapyError, match=r"text\.so: cannot be loaded.*make native"):
        lib.load()


@pytest.mark.parametrize("constant", ["ABI", "NODE_BYTES", "OPND_BYTES"])
def test_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, constant: str
) -> None:
    (tmp_path / "other.so").symlink_to(lib.library_path().resolve())
    monkeypatch.setattr(lib, constant, getattr(lib, constant) + 1)
    monkeypatch.setenv("LLAMAPY_LIB", str(tmp_path / "other.so"))
    with pytest.raises(LlamapyError, match=r"other\.so: built for another version"):
        lib.load()


def test_the_library_is_asked_without_numpy() -> None:
    code = (
        "import sys; from llamapy.ffi import lib; lib.features(); lib.isa_report(); "
        "lib.best_kernel('add', 'f32', 'f32'); print('numpy' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"


def test_importing_ffi_loads_no_library() -> None:
    code = "import llamapy.ffi.lib as l, llamapy.ffi.pool; print(l._load.cache_info().currsize)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "0\n"


def test_numpy_sees_the_bytes_of_a_record() -> None:
    nodes = empty_nodes(1)
    nodes["src"]["ne"][0, 9, 3] = 77
    at = lib.NODE_BYTES - lib.OPND_BYTES + 3 * 8 + 3 * 8
    assert nodes.tobytes()[at : at + 8] == np.int64(77).tobytes()
