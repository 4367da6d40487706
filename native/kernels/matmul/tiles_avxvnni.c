#define LP_TILE_COLS 6
#define LP_TILE_VECS 1
#define LP_TILE_FORM LP_PANEL_PLUS
#include "int_avx2.h"
#include "vector_256.h"
#include "tile_parts.h"
#include "steps_dpbusd.h"

#include "tile_x86.h"
#include "tiles.h"

LP_TILER(avxvnni, LP_TILE_FORM)
