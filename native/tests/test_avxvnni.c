/* The rows of AVX-VNNI on a CPU that has its dot product of bytes only as AVX-512 encodes it: their
 * tiles come from the same source, compiled for that (see the Makefile). */
#define LP_ALSO (lp_cpu_features() & LP_VNNI ? LP_AVXVNNI : 0)
#include "test_hashes.c"
