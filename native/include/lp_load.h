/* Loads of f32 or f16 by a type known when the body is inlined (include a vec_*.h first). */
#ifndef LP_LOAD_H
#define LP_LOAD_H

#include "lp_types.h"

LP_INLINE v16 lp_load_as(const char *p, int type, int n) {
    if (type == LP_T_F16) {
        return n == 16 ? v_load_f16((const uint16_t *)p) : v_load_f16_n((const uint16_t *)p, n);
    }
    return n == 16 ? v_load((const float *)p) : v_load_n((const float *)p, n);
}
LP_INLINE int64_t lp_type_bytes(int type) {
    return type == LP_T_F16 ? 2 : 4;
}

#endif
