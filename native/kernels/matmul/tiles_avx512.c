#define LP_TILE_COLS 6
#define LP_TILE_VECS 1
#define LP_TILE_FORM LP_PANEL_BYTES
#include "int_avx2.h"
#include "vector_512.h"
#include "tile_parts.h"
#include "steps_maddubs.h"

#include "tile_x86.h"
#include "tiles.h"

LP_TILER(avx512, LP_TILE_FORM)
