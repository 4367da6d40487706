/* Quantised weights by x8 activations, compiled once per format. */
#define LP_FETCH_EVENLY 1
#include "int_avx2.h"
#include "each.h"
#include "gemv_x8.h"
#include "gemm_x8.h"

LP_MUL_MAT(_x8_, avx2)
LP_MUL_MAT(_x8_, avxvnni)
LP_MUL_MAT(_x8_, avx512)
