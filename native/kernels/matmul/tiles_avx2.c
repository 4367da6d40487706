#define LP_TILE_COLS 4
#define LP_TILE_VECS 2
#define LP_TILE_FORM LP_PANEL_APART
#include "int_avx2.h"
#include "vector_256.h"
#include "tile_parts.h"
#include "steps_maddubs.h"

#include "tile_x86.h"
#include "tiles.h"

LP_TILER(avx2, LP_TILE_FORM)
