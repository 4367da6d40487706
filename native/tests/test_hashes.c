/* Every row of the kernel table that this CPU can run gives the results that are on record: one
 * hash per family and types, whatever the instruction set and the architecture.
 *
 *   test_hashes            compare with tests/kernel_hashes.txt
 *   test_hashes --write    print what that file must hold, from the scalar kernels */
#include "nodes_products.h"
#include "nodes_recur.h"
#include "nodes_rows.h"
#include "nodes_experts.h"

#ifndef LP_ALSO /* features to try besides the CPU's own */
#define LP_ALSO 0
#endif

static const char path[] = "tests/kernel_hashes.txt";

static const struct {
    const char *family;
    void (*nodes)(struct trial *t);
} families[] = {
    {"add", two_values},
    {"sub", two_values},
    {"mul", two_values},
    {"div", two_values},
    {"scale", scaled},
    {"softcap", capped},
    {"silu", one_value},
    {"gelu", one_value},
    {"gelu_erf", one_value},
    {"gelu_quick", one_value},
    {"relu", one_value},
    {"relu_sqr", one_value},
    {"sigmoid", one_value},
    {"tanh", one_value},
    {"exp", one_value},
    {"log", one_positive},
    {"softplus", one_value},
    {"neg", one_value},
    {"abs", one_value},
    {"sqr", one_value},
    {"sqrt", one_positive},
    {"clamp", clamped},
    {"xielu", xielu},
    {"norm", norm_float},
    {"norm_quant", norm_quant},
    {"l2_norm", whole_rows},
    {"soft_max", whole_rows},
    {"sum_rows", whole_rows},
    {"swiglu_oai", gated_float},
    {"swiglu_oai_quant", gated_quant},
    {"mul_mat_id", mul_mat_id},
    {"highest", highest},
    {"highest_sum", highest_sum},
    {"top_k_ids", top_k_ids},
    {"take_ids", take_ids},
    {"add_id", add_id},
    {"weighted_sum", weighted_sum},
    {"concat", concat},
    {"swiglu", gated_float},
    {"geglu", gated_float},
    {"geglu_erf", gated_float},
    {"geglu_quick", gated_float},
    {"reglu", gated_float},
    {"swiglu_quant", gated_quant},
    {"geglu_quant", gated_quant},
    {"geglu_erf_quant", gated_quant},
    {"geglu_quick_quant", gated_quant},
    {"reglu_quant", gated_quant},
    {"rms_norm", norm_float},
    {"rms_norm_quant", norm_quant},
    {"rope", rope},
    {"rope_table", rope_table},
    {"rope_apply", rope_apply},
    {"rope_set_rows", rope_set_rows},
    {"quant_act", quant_act},
    {"quant_act_pair", quant_act_pair},
    {"cpy", cpy},
    {"set_rows", set_rows},
    {"mul_mat", mul_mat},
    {"get_rows", get_rows},
    {"repack", repack},
    {"flash_attn", flash_attn},
    {"flash_attn_quant", flash_attn},
    {"flash_attn_part", flash_attn_part},
    {"flash_attn_merge", flash_attn_merge},
    {"flash_attn_merge_quant", flash_attn_merge},
    {"ssm_conv", ssm_conv},
    {"ssm_scan", ssm_scan},
    {"gated_delta_net", gated_delta_net},
    {"token_shift", token_shift},
    {"gated_linear_attn", gated_linear_attn},
    {"rwkv_wkv6", rwkv_wkv6},
    {"rwkv_wkv7", rwkv_wkv7},
};

static void name_of(const struct lp_kernel *k, char *name, size_t n) {
    snprintf(name, n, "%s %s %s", k->family, k->wtype, k->xtype);
}

/* The hash of all nodes of a row; they depend on its family and types alone. */
static uint64_t hash_of(int64_t row) {
    const uint64_t start = UINT64_C(0xcbf29ce484222325);
    struct trial t = {.kernel = lp_kernel_at(row), .row = row, .hash = start};
    char name[128];
    name_of(t.kernel, name, sizeof name);
    t.seed = fnv(start, name, (int64_t)strlen(name));
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (!strcmp(families[i].family, t.kernel->family)) {
            families[i].nodes(&t);
        }
    }
    if (t.hash == start) {
        fprintf(stderr, "%s: no nodes for this family in %s\n", name, __FILE__);
        exit(1);
    }
    return t.hash;
}

static void write_all(void) {
    for (int64_t i = 0; i < lp_kernel_count(); i++) {
        char name[128];
        name_of(lp_kernel_at(i), name, sizeof name);
        if (!strcmp(lp_kernel_at(i)->isa, "scalar")) {
            printf("%s %016llx\n", name, (unsigned long long)hash_of(i));
        }
    }
}

/* The hash on record; 0 when there is none. */
static uint64_t recorded(const char *text, const char *name) {
    const size_t n = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, n) && line[n] == ' ') {
            return strtoull(line + n, NULL, 16);
        }
    }
    return 0;
}

static char *read_text(void) {
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!f || !text) {
        fprintf(stderr, "%s: cannot be read; run this from its parent folder\n", path);
        exit(1);
    }
    CHECK(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static int check_all(void) {
    char *text = read_text();
    int wrong = 0, n = 0, lines = 0, names = 0;
    for (int64_t i = 0; i < lp_kernel_count(); i++) {
        const struct lp_kernel *k = lp_kernel_at(i);
        char name[128];
        name_of(k, name, sizeof name);
        const uint64_t want = recorded(text, name);
        names += !strcmp(k->isa, "scalar");
        if (!want) {
            fprintf(stderr, "%s: no hash in %s; `make hashes` writes it\n", name, path);
            wrong++;
        } else if (!(k->need & ~(lp_cpu_features() | LP_ALSO))) {
            const uint64_t got = hash_of(i);
            n++;
            if (got != want) {
                fprintf(stderr, "%s %s: %016llx, on record is %016llx\n", name, k->isa,
                        (unsigned long long)got, (unsigned long long)want);
                wrong++;
            }
        }
    }
    for (const char *p = text; *p; p++) {
        lines += *p == '\n';
    }
    free(text);
    if (lines != names) {
        fprintf(stderr, "%s: %d lines for %d kernels; `make hashes` writes it\n", path, lines,
                names);
        wrong++;
    }
    printf("%d rows of the kernel table, %d wrong\n", n, wrong);
    return wrong != 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--write")) {
        write_all();
        return 0;
    }
    return check_all();
}
