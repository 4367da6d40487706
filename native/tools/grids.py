"""Writes kernels/matmul/grids.c: the codebooks of the iq formats, from the gguf package's data.

    python native/tools/grids.py            write the file anew
    python native/tools/grids.py --check    say whether it is what would be written

An entry is 8 (iq1, iq2) or 4 (iq3) small values of a map; it is written as the indices into that
map, 16 bits an entry, and the compiler makes bytes of them. The file is committed, so that only
this script needs the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf.quants
import numpy as np

TARGET = Path(__file__).parent.parent / "kernels" / "matmul" / "grids.c"
# table, class that holds it, what is added to and multiplied into its values to make a byte
TABLES = (
    ("iq1", "IQ1_S", 1, 8),
    ("iq2_xxs", "IQ2_XXS", 0, 1),
    ("iq2_xs", "IQ2_XS", 0, 1),
    ("iq2_s", "IQ2_S", 0, 1),
    ("iq3_xxs", "IQ3_XXS", 0, 1),
    ("iq3_s", "IQ3_S", 0, 1),
)
HEAD = r"""/* The codebooks of the iq formats. Written by native/tools/grids.py; not to be edited.
 *
 * MAP holds the values of a codebook, a byte each; an entry is written as the indices of its values
 * (the first one lowest), 16 bits an entry and four entries a literal. */
#include "grids.h"

/* clang-format off */
#define V(map, e, bits, i) \
    ((((map) >> (((e) >> (bits) * (i)) & ((1 << (bits)) - 1)) * 8) & 255) << 8 * (i))
#define EIGHT(m, e) \
    (V(m, e, 2, 0) | V(m, e, 2, 1) | V(m, e, 2, 2) | V(m, e, 2, 3) | V(m, e, 2, 4) | \
     V(m, e, 2, 5) | V(m, e, 2, 6) | V(m, e, 2, 7))
#define FOUR(m, e) (uint32_t)(V(m, e, 3, 0) | V(m, e, 3, 1) | V(m, e, 3, 2) | V(m, e, 3, 3))
#define G(x) ENTRY(MAP, x), ENTRY(MAP, x >> 16), ENTRY(MAP, x >> 32), ENTRY(MAP, x >> 48)

"""


def entries(class_name: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """(index of every value in the map [entries, 4 or 8], the map)."""
    cls = getattr(gguf.quants, class_name)
    cls.init_grid()
    grid = cls.grid.reshape(cls.grid_shape).astype(int)
    values = np.array(cls.grid_map, int)
    return np.argmax(grid[:, :, None] == values, axis=2), tuple(int(v) for v in values)


def table(name: str, class_name: str, add: int, factor: int) -> str:
    index, values = entries(class_name)
    n, width = index.shape
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(2 if width == 8 else 3)
    code = (index.astype(np.uint64) << shifts).sum(1).reshape(-1, 4)
    four = (code << np.arange(0, 64, 16, dtype=np.uint64)).sum(1)
    packed = sum((v + add) * factor << 8 * i for i, v in enumerate(values))
    lines = [
        f"#define MAP {packed:#x}ull",
        f"#define ENTRY {'EIGHT' if width == 8 else 'FOUR'}",
        f"const uint{8 * width}_t lp_grid_{name}[{n}] = {{",
    ]
    for i in range(0, len(four), 4):
        lines.append("    " + ", ".join(f"G({v:#018x})" for v in four[i : i + 4]) + ",")
    return "\n".join([*lines, "};", "#undef MAP", "#undef ENTRY", ""])


def source() -> str:
    return HEAD + "\n".join(table(*t) for t in TABLES)


def main() -> int:
    if "--check" in sys.argv[1:]:
        same = TARGET.read_text() == source()
        print(f"{TARGET}: {'up to date' if same else 'differs'}", file=sys.stderr)
        return 0 if same else 1
    TARGET.write_text(source())
    return 0


if __name__ == "__main__":
    sys.exit(main())
