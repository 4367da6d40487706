#include "int_avx2.h"
#include "tile_avx2.h"
#include "tiles.h"

LP_TILER(avx2, LP_PANEL_BYTES)
