/* Rows interleaved by eight by x8 activations, compiled once per format that can be. */
#define LP_R8 1
#define LP_FETCH_EVENLY 1
#include "int_avx2.h"
#include "each.h"
#include "gemv_r8.h"
#include "gemm_x8.h"

LP_MUL_MAT(_r8_x8_, avx2)
LP_MUL_MAT(_r8_x8_, avxvnni)
LP_MUL_MAT(_r8_x8_, avx512)
