#include "int_neon.h"
#include "tile_neon.h"
#include "tiles.h"

LP_TILER(neon, LP_PANEL_SIGNED)
