/* What tile_x86.h is made of, in 512 bits. */
#ifndef LP_VECTOR_H
#define LP_VECTOR_H

#include "panel.h"

#define LP_TILE_LANES 16

typedef __m512i t_int;
typedef __m512 t_float;

#define t_load(p) _mm512_loadu_si512(p)
#define t_set1(x) _mm512_set1_epi32(x)
/* Sums are to be made in the order written: GCC would keep all the terms first. */
#define t_keep(a) __asm__("" : "+v"(a))
#define t_add(a, b) _mm512_add_epi32(a, b)
#define t_add16(a, b) _mm512_add_epi16(a, b)
#define t_mul(a, b) _mm512_mullo_epi32(a, b)
/* The lower 16 bits of b above those of a, in every lane. */
#define t_pair(a, b) _mm512_mask_blend_epi16(0xaaaaaaaa, a, _mm512_slli_epi32(b, 16))
#define t_pairs(a, b) _mm512_madd_epi16(a, b)
#define t_bytes(a, b) _mm512_maddubs_epi16(a, b)
/* The panel holds signed bytes. */
typedef __mmask64 t_minus;
#define t_minus8(w, signs) _mm512_movepi8_mask(w)
#define t_magnitude(w) _mm512_abs_epi8(w)
#define t_under(a, m) _mm512_mask_sub_epi8(a, m, _mm512_setzero_si512(), a)
#define tf_load(p) _mm512_castsi512_ps(t_load(p))
#define tf_set1(x) _mm512_set1_ps(x)
#define tf_from(a) _mm512_cvtepi32_ps(a)
#define tf_add(a, b) _mm512_add_ps(a, b)
#define tf_mul(a, b) _mm512_mul_ps(a, b)
#define tf_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define tf_store(p, a) _mm512_storeu_ps(p, a)

#endif
