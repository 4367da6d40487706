/* Rows of a tile as LP_TILE_VECS vectors: what steps_*.h and tile_x86.h share. Included after
 * vector_*.h. */
#ifndef LP_TILE_PARTS_H
#define LP_TILE_PARTS_H

#define LP_TILE_ROWS (LP_TILE_LANES * LP_TILE_VECS)

LP_FORCE t_int lp_tile_word(const void *p) {
    int32_t x;
    memcpy(&x, p, 4);
    return t_set1(x);
}
LP_FORCE t_float lp_tile_float(const void *p) {
    float x;
    memcpy(&x, p, 4);
    return tf_set1(x);
}
/* Vector v of a plane of 32-bit values, of floats. */
LP_FORCE t_int lp_tile_plane(const uint8_t *plane, int v) {
    return t_load(plane + v * 4 * LP_TILE_LANES);
}
LP_FORCE t_float lp_tile_floats(const uint8_t *plane, int v) {
    return tf_load(plane + v * 4 * LP_TILE_LANES);
}

/* With two vectors of rows, sums take the registers: what stands in memory is loaded when it is
 * used, and floats wait there. */
LP_FORCE void lp_tile_fence(void) {
    if (LP_TILE_VECS > 1) {
        __asm__ volatile("" ::: "memory");
    }
}
LP_FORCE void lp_tile_wait(void *p) {
    if (LP_TILE_VECS > 1) {
        __asm__ volatile("" ::"r"(p) : "memory");
    }
}

#endif
