/* What this CPU can do and the system allows (XCR0 and the like: the compiler's probe asks both).
 */
#include "lp.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define HAS_DOTPROD (getauxval(AT_HWCAP) >> 20 & 1) /* HWCAP_ASIMDDP */
#define HAS_I8MM (getauxval(AT_HWCAP2) >> 13 & 1)   /* HWCAP2_I8MM */
#else
#define HAS_I8MM 0
#define HAS_DOTPROD 0
#endif

#if defined(__x86_64__)
#include <cpuid.h>
/* Leaf 7, subleaf 1, which compilers' own probes know late. Its registers are those of AVX2. */
static int has_avx_vnni(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

uint64_t lp_cpu_features(void) {
    uint64_t have = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c"))
        have |= LP_AVX2;
    if ((have & LP_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        have |= LP_AVX512;
    if ((have & LP_AVX512) && __builtin_cpu_supports("avx512vnni"))
        have |= LP_VNNI;
    if ((have & LP_AVX2) && has_avx_vnni())
        have |= LP_AVXVNNI;
#elif defined(__aarch64__)
    have |= LP_NEON; /* part of the base architecture */
    if (HAS_DOTPROD)
        have |= LP_DOTPROD;
    if (HAS_I8MM)
        have |= LP_I8MM;
#endif
    return have;
}

uint32_t lp_abi(void) {
    return LP_ABI;
}

uint64_t lp_sizeof_node(void) {
    return sizeof(struct lp_node);
}

uint64_t lp_sizeof_opnd(void) {
    return sizeof(struct lp_opnd);
}
