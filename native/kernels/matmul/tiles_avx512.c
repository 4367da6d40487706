#define LP_TILE_COLS 6
#include "int_avx2.h"
#include "vector_512.h"
#include "steps_maddubs.h"

#include "tile_x86.h"
#include "tiles.h"

LP_TILER(avx512, LP_PANEL_BYTES)
