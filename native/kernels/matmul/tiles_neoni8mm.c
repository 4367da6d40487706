#include "int_neondot.h"
#include "tile_i8mm.h"
#include "tiles.h"

LP_TILER(neoni8mm, LP_PANEL_SIGNED)
