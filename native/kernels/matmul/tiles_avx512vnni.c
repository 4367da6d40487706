#include "int_avx512.h"
#include "tile_avx512.h"
#include "tiles.h"

LP_TILER(avx512vnni, LP_PANEL_PLUS)
