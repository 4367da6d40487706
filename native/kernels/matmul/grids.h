/* The codebooks of the iq formats: an entry is 8 or 4 values, a byte each, the first one lowest.
 * Those of iq2 and iq3 are magnitudes; those of iq1 (-1, 0, 1) are kept as 8 (value + 1). */
#ifndef LP_GRIDS_H
#define LP_GRIDS_H

#include <stdint.h>

extern const uint64_t lp_grid_iq1[2048]; /* iq1_s and iq1_m */
extern const uint64_t lp_grid_iq2_xxs[256], lp_grid_iq2_xs[512], lp_grid_iq2_s[1024];
extern const uint32_t lp_grid_iq3_xxs[256], lp_grid_iq3_s[512];

#endif
