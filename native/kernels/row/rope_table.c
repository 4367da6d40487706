/* theta(i) = pos * base^(-2i / n_dims) / factors[i], reduced and evaluated in double by polynomials
 * of our own (Taylor to the last bit that shows in f32), times mscale, rounded to f32. YaRN blends
 * theta with freq_scale * theta by a ramp between the pairs that turn beta_fast and beta_slow times
 * over the original context (Peng et al. 2023, "YaRN", section 3). Plain C, no contraction, no
 * libm. */
#include "kernels/row/rope_table.h"
#include "lp_double.h"

#define PI 3.14159265358979323846

/* Parameters, in the order of the op's row. */
enum { N_DIMS, MODE, N_CTX_ORIG, SECTIONS };
enum { FREQ_BASE, FREQ_SCALE, EXT_FACTOR, ATTN_FACTOR, BETA_FAST, BETA_SLOW };

/* pi / 2 in 33 + 53 bits: errors stay below 1e-10 up to 2^20 and 1e-6 up to 2^31. NaN where the
 * quadrant itself is lost. */
static void sincos_of(double x, double *sin, double *cos) {
    static const double S[] = {-1.0 / 6,     1.0 / 120,       -1.0 / 5040,
                               1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800.0};
    static const double C[] = {1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
                               1.0 / 479001600.0};
    if (!(x > -0x1p50 && x < 0x1p50)) {
        *sin = *cos = __builtin_nan("");
        return;
    }
    int64_t n = (int64_t)(x * (2.0 / PI) + (x < 0 ? -0.5 : 0.5));
    double r = x - (double)n * 0x1.921fb544p0;
    r -= (double)n * 0x1.0b4611a626331p-34;
    double r2 = r * r;
    double s = ((((S[5] * r2 + S[4]) * r2 + S[3]) * r2 + S[2]) * r2 + S[1]) * r2 + S[0];
    double c = (((C[4] * r2 + C[3]) * r2 + C[2]) * r2 + C[1]) * r2 + C[0];
    s = r + r * r2 * s;
    c = 1.0 - 0.5 * r2 + r2 * r2 * c;
    double a = n & 1 ? c : s, b = n & 1 ? s : c;
    *sin = n & 2 ? -a : a;
    *cos = (n + 1) & 2 ? -b : b;
}

/* The pair that turns `turns` times over the original context. */
static double pair_turning(const struct lp_node *n, double turns) {
    double span = (double)n->ip[N_CTX_ORIG] / (turns * 2.0 * PI);
    return (double)n->ip[N_DIMS] * lp_log_of(span) / (2.0 * lp_log_of(n->fp[FREQ_BASE]));
}

static int64_t pairs_of(const struct lp_node *n) {
    return n->ip[MODE] == LP_ROPE_VISION ? n->ip[N_DIMS] : n->ip[N_DIMS] / 2;
}

int64_t lp_rope_bytes(const struct lp_node *n) {
    int64_t pairs = pairs_of(n);
    return pairs < 0 || pairs > n->dst.ne[0] ? 0 : pairs * 8 + lp_rope_row(n->ip[MODE], pairs) * 4;
}

static int open_yarn(struct lp_rope *r, const struct lp_node *n) {
    if (n->ip[N_CTX_ORIG] <= 0 || !(n->fp[FREQ_BASE] > 1.001) || !(n->fp[BETA_FAST] > 0.0) ||
        !(n->fp[BETA_SLOW] > 0.0)) {
        return LP_E_TYPES;
    }
    r->mscale *= 1.0 + 0.1 * lp_log_of(1.0 / r->freq_scale);
    double low = lp_floor_of(pair_turning(n, n->fp[BETA_FAST]));
    double high = -lp_floor_of(-pair_turning(n, n->fp[BETA_SLOW]));
    r->low = low > 0.0 ? low : 0.0;
    r->high = high < (double)(r->n_dims - 1) ? high : (double)(r->n_dims - 1);
    return LP_OK;
}

int lp_rope_open(struct lp_rope *r, const struct lp_args *a, int factors, void *scratch) {
    const struct lp_node *n = a->n;
    int64_t mode = n->ip[MODE], pairs = pairs_of(n), width = n->dst.ne[0];
    int known = mode == LP_ROPE_NORMAL || mode == LP_ROPE_NEOX || mode == LP_ROPE_MROPE ||
                mode == LP_ROPE_IMROPE || mode == LP_ROPE_VISION;
    if (!known || n->ip[N_DIMS] < 2 || n->ip[N_DIMS] % 2 || 2 * pairs > width ||
        !(n->fp[FREQ_BASE] > 0.0) || !(n->fp[FREQ_SCALE] > 0.0)) {
        return LP_E_TYPES;
    }
    *r = (struct lp_rope){.mode = mode,
                          .n_dims = n->ip[N_DIMS],
                          .n_pairs = pairs,
                          .factors = n->n_src > factors ? (const float *)a->src[factors] : NULL,
                          .freq_scale = n->fp[FREQ_SCALE],
                          .ext_factor = n->fp[EXT_FACTOR],
                          .mscale = n->fp[ATTN_FACTOR],
                          .freqs = scratch};
    memcpy(r->sections, &n->ip[SECTIONS], sizeof r->sections);
    int64_t turn = r->sections[0] + r->sections[1] + r->sections[2] + r->sections[3];
    if (mode >= LP_ROPE_MROPE && turn <= 0) {
        return LP_E_TYPES;
    }
    double ratio = lp_exp_of(-2.0 / (double)r->n_dims * lp_log_of(n->fp[FREQ_BASE])), f = 1.0;
    for (int64_t i = 0; i < pairs; i++) {
        r->freqs[i] = f;
        f *= ratio;
    }
    return r->ext_factor != 0.0 ? open_yarn(r, n) : LP_OK;
}

/* Which of the four positions pair i turns by, and the exponent of its frequency: sections of pairs
 * belong to time, height, width and extra. VISION counts the exponent from the section's start;
 * IMROPE deals the pairs out in turn. */
static int axis_of(const struct lp_rope *r, int64_t i, int64_t *exponent) {
    const int64_t *s = r->sections;
    *exponent = i;
    if (r->mode < LP_ROPE_MROPE) {
        return 0;
    }
    int64_t k = i % (s[0] + s[1] + s[2] + s[3]);
    if (r->mode == LP_ROPE_IMROPE) {
        int axis = (int)(k % 3);
        return k < 3 * s[axis] ? axis : 3;
    }
    int axis = 0;
    int64_t start = 0;
    while (axis < 3 && k >= start + s[axis]) {
        start += s[axis++];
    }
    if (r->mode == LP_ROPE_VISION) {
        *exponent = k - start;
    }
    return axis;
}

/* theta with YaRN's blend: 1 at and below pair `low` keeps the angle, 0 from `high` on scales it.
 */
static double blend(const struct lp_rope *r, double theta, int64_t i) {
    double scaled = r->freq_scale * theta;
    if (r->ext_factor == 0.0) {
        return scaled;
    }
    double span = r->high - r->low > 0.001 ? r->high - r->low : 0.001;
    double y = ((double)i - r->low) / span;
    double mix = (1.0 - (y < 0.0 ? 0.0 : y > 1.0 ? 1.0 : y)) * r->ext_factor;
    return scaled * (1.0 - mix) + theta * mix;
}

void lp_rope_fill(const struct lp_rope *r, float *row, const char *pos, const struct lp_opnd *p,
                  int64_t t, int64_t n_tokens) {
    int32_t at[4] = {0, 0, 0, 0};
    for (int k = 0; k < (r->mode >= LP_ROPE_MROPE ? 4 : 1); k++) {
        memcpy(&at[k], pos + (t + k * n_tokens) * p->nb[0], 4);
    }
    for (int64_t i = 0; i < r->n_pairs; i++) {
        int64_t exponent;
        int axis = axis_of(r, i, &exponent);
        double theta = (double)at[axis] * r->freqs[exponent], s, c;
        if (r->factors) {
            theta /= (double)r->factors[i];
        }
        sincos_of(blend(r, theta, i), &s, &c);
        float cos = (float)(c * r->mscale), sin = (float)(s * r->mscale);
        if (r->mode == LP_ROPE_NORMAL) {
            float *sines = row + 2 * r->n_pairs;
            row[2 * i] = row[2 * i + 1] = cos;
            sines[2 * i] = -sin;
            sines[2 * i + 1] = sin;
        } else {
            row[i] = cos;
            row[r->n_pairs + i] = sin;
        }
    }
}

/* pos, [factors] -> [lp_rope_row, n_tokens] f32. A task has whole tokens. */
int lp_rope_table_f32_f32_scalar(const struct lp_args *a, int64_t task, void *scratch) {
    const struct lp_node *n = a->n;
    struct lp_rope r;
    int status = lp_rope_open(&r, a, 1, scratch);
    if (status || lp_rope_row(r.mode, r.n_pairs) != n->dst.ne[0]) {
        return status ? status : LP_E_TYPES;
    }
    int64_t total = n->dst.ne[1], end = total * (task + 1) / n->n_tasks;
    for (int64_t t = total * task / n->n_tasks; t < end; t++) {
        float *row = (float *)(a->dst + t * n->dst.nb[1]);
        lp_rope_fill(&r, row, a->src[0], &n->src[0], t, total);
    }
    return LP_OK;
}
