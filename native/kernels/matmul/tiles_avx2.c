#define LP_TILE_COLS 4
#include "int_avx2.h"
#include "vector_256.h"
#include "steps_maddubs.h"

#include "tile_x86.h"
#include "tiles.h"

LP_TILER(avx2, LP_PANEL_BYTES)
