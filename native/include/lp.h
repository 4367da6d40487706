/* llamapy native library: the contract between Python and C, and between plan, pool and kernels.
 *
 * Python lowers a split to an array of fixed-size records (struct lp_node) and calls lp_run once.
 * The library never prints, aborts or exits: it returns a status and the index of the node at
 * fault. */
#ifndef LP_H
#define LP_H

#include <stddef.h>
#include <stdint.h>

#define LP_ABI 1
#define LP_MAX_SRC 10
#define LP_NO_SLOT UINT64_MAX

/* What a CPU must have for a row of kernels.def (bits, from lp_cpu_features). */
#define LP_AVX2 1u   /* AVX2, FMA, F16C */
#define LP_AVX512 2u /* AVX-512 F, BW, VL, DQ (implies LP_AVX2) */
#define LP_I8MM 64u  /* smmla (implies LP_NEON) */
#define LP_VNNI 4u   /* AVX-512 VNNI */
#define LP_NEON 8u
#define LP_DOTPROD 16u /* sdot and udot (implies LP_NEON) */
#define LP_AVXVNNI 32u /* AVX-VNNI, the dot products of bytes in 256 bits (implies LP_AVX2) */

/* Status of a run or a kernel. */
enum {
    LP_OK = 0,
    LP_E_TYPES = 1,   /* no kernel for these types or shapes */
    LP_E_SCRATCH = 2, /* scratch space too small */
    LP_E_INDEX = 3,   /* a row index outside its table */
    LP_E_ABORTED = 4, /* the abort flag was set */
    LP_E_PLAN = 5,    /* the plan is malformed */
    LP_E_THREAD = 6,  /* a thread could not be started */
    LP_E_MEMORY = 7,  /* no memory for the run's own tables */
};

/* Node flags. */
#define LP_SYNC 1u /* every earlier task of the plan is done before the first task of this node */

/* One operand. Its address is slots[slot] + offs; slots are bound per run. ne and nb as in ggml:
 * ne[0] innermost, nb in bytes. type is the ggml type id (1000: X8, see x8.h). */
struct lp_opnd {
    uint64_t slot, offs;
    int64_t type;
    int64_t ne[4], nb[4];
};

/* One record. ip and fp are the op's parameters in the order of its row in graph/ops.py. */
struct lp_node {
    uint64_t kernel; /* row of kernels.def */
    uint64_t flags;
    int64_t n_src;
    int64_t n_tasks; /* filled by lp_prepare */
    int64_t ip[12];
    double fp[12];
    struct lp_opnd dst;
    struct lp_opnd src[LP_MAX_SRC];
};

/* What a kernel gets: the record and the resolved addresses. again: this thread's last task was one
 * of the same node in the same run, and its scratch is as that task left it. */
struct lp_args {
    const struct lp_node *n;
    char *dst;
    const char *src[LP_MAX_SRC];
    int again;
};

/* Compute one task of a node. Tasks of a node are independent of each other and may run in any
 * order on any thread; what they compute does not depend on how the node was cut into tasks.
 * scratch: this thread's own, 64-byte aligned, at least what the row's scratch function asked for.
 */
typedef int (*lp_run_fn)(const struct lp_args *a, int64_t task, void *scratch);
/* Number of tasks of a node when n_threads share it. >= 1 for a node that has work, 0 for an empty
 * one, negative for types or shapes that no kernel of the family takes. */
typedef int64_t (*lp_split_fn)(const struct lp_node *n, int n_threads);
/* Bytes of scratch a thread needs. */
typedef int64_t (*lp_scratch_fn)(const struct lp_node *n);

/* One row of kernels.def. */
struct lp_kernel {
    const char *family, *wtype, *xtype, *isa;
    uint64_t need;
    lp_run_fn run;
    lp_split_fn split;
    lp_scratch_fn scratch;
};

#if defined(_WIN32)
#define LP_API __declspec(dllexport)
#else
#define LP_API __attribute__((visibility("default")))
#endif

LP_API uint32_t lp_abi(void);
LP_API uint64_t lp_sizeof_node(void);
LP_API uint64_t lp_sizeof_opnd(void);
/* Features of the CPU that the system allows too (bits above). */
LP_API uint64_t lp_cpu_features(void);
LP_API int64_t lp_kernel_count(void);
LP_API const struct lp_kernel *lp_kernel_at(int64_t i);

/* Checks the records (kernel index, source counts), fills n_tasks, and returns through
 * *scratch_bytes the scratch one thread needs. */
LP_API int lp_prepare(struct lp_node *nodes, int64_t n, int n_threads, int64_t *scratch_bytes,
                      int64_t *fault);

struct lp_pool;
LP_API struct lp_pool *lp_pool_new(int n_threads); /* NULL when a thread could not be started */
LP_API void lp_pool_free(struct lp_pool *pool);
/* Run a prepared plan on the pool's first n_threads threads (the caller is one of them). slots[i]
 * is the base address of slot i. scratch holds n_threads * scratch_bytes (a multiple of 64).
 * abort_flag may be NULL; a non-zero value ends the run with LP_E_ABORTED within one task. On a
 * status other than LP_OK, *fault is the node at fault, or -1. */
LP_API int lp_run(struct lp_pool *pool, const struct lp_node *nodes, int64_t n, char *const *slots,
                  int64_t n_slots, char *scratch, int64_t scratch_bytes, int n_threads,
                  const volatile int32_t *abort_flag, int64_t *fault);

/* From here to lp_sigint_unwatch, SIGINT sets *flag before the handler that was in place gets it.
 * An ignored SIGINT stays ignored. */
LP_API int lp_sigint_watch(int32_t *flag);
LP_API void lp_sigint_unwatch(void);

#endif
