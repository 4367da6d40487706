#define LP_TILE_COLS 6
#include "int_avx2.h"
#include "vector_256.h"
#include "steps_dpbusd.h"

#include "tile_x86.h"
#include "tiles.h"

LP_TILER(avxvnni, LP_PANEL_PLUS)
