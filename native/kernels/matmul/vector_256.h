/* What tile_x86.h is made of, in 256 bits: t_ a vector of int32 or of smaller ones, tf_ of floats.
 */
#ifndef LP_VECTOR_H
#define LP_VECTOR_H

#include "panel.h"

#define LP_TILE_LANES 8

typedef __m256i t_int;
typedef __m256 t_float;

#define t_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define t_set1(x) _mm256_set1_epi32(x)
/* Sums are to be made in the order written: GCC would keep all the terms first. */
#define t_keep(a) __asm__("" : "+x"(a))
#define t_add(a, b) _mm256_add_epi32(a, b)
#define t_add16(a, b) _mm256_add_epi16(a, b)
#define t_mul(a, b) _mm256_mullo_epi32(a, b)
/* The lower 16 bits of b above those of a, in every lane. */
#define t_pair(a, b) _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa)
#define t_pairs(a, b) _mm256_madd_epi16(a, b)
#define t_bytes(a, b) _mm256_maddubs_epi16(a, b)
/* Signs stand in the panel as bytes of ones (LP_PANEL_APART): ~x, where they are set, is 1 less
 * than -x. */
typedef __m256i t_minus;
#define t_minus8(w, signs) t_load(signs)
#define t_magnitude(w) (w)
#define t_under(a, m) _mm256_xor_si256(a, m)
#define tf_load(p) _mm256_castsi256_ps(t_load(p))
#define tf_set1(x) _mm256_set1_ps(x)
#define tf_from(a) _mm256_cvtepi32_ps(a)
#define tf_add(a, b) _mm256_add_ps(a, b)
#define tf_mul(a, b) _mm256_mul_ps(a, b)
#define tf_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define tf_store(p, a) _mm256_storeu_ps(p, a)

#endif
