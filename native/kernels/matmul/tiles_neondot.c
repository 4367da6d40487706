#include "int_neondot.h"
#include "tile_neon.h"
#include "tiles.h"

LP_TILER(neondot, LP_PANEL_SIGNED)
