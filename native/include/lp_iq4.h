/* The 16 values that a nibble of iq4_nl stands for. */
#ifndef LP_IQ4_H
#define LP_IQ4_H

#include <stdint.h>

static const int8_t lp_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

#endif
