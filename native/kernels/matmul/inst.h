/* Makes functions from the rows of rows.def: a source file defines
 * LP_INST_<family>_<xtype>_<isa>(w) for the rows it implements and includes this. */
#ifndef LP_INST_mul_mat_x8_scalar
#define LP_INST_mul_mat_x8_scalar(w)
#endif
#ifndef LP_INST_mul_mat_x8_avx2
#define LP_INST_mul_mat_x8_avx2(w)
#endif
#ifndef LP_INST_mul_mat_x8_avx512vnni
#define LP_INST_mul_mat_x8_avx512vnni(w)
#endif
#ifndef LP_INST_mul_mat_f32_scalar
#define LP_INST_mul_mat_f32_scalar(w)
#endif
#ifndef LP_INST_mul_mat_f32_avx2
#define LP_INST_mul_mat_f32_avx2(w)
#endif
#ifndef LP_INST_mul_mat_f32_avx512
#define LP_INST_mul_mat_f32_avx512(w)
#endif
#ifndef LP_INST_get_rows_f32_scalar
#define LP_INST_get_rows_f32_scalar(w)
#endif
#define LP_KERNEL(family, w, x, isa, need) LP_INST_##family##_##x##_##isa(w)
#include "rows.def"
#undef LP_KERNEL
