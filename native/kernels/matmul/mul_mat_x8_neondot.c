/* Quantised weights by x8 activations, compiled once per format. */
#include "int_neondot.h"
#include "each.h"
#include "gemv_x8.h"
#include "gemm_x8.h"

LP_MUL_MAT(_x8_, neondot)
LP_MUL_MAT(_x8_, neoni8mm)
