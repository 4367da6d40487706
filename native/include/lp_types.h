/* Ids of ggml's types, as they stand in GGUF files and in struct lp_opnd. */
#ifndef LP_TYPES_H
#define LP_TYPES_H

enum {
    LP_T_F32 = 0,
    LP_T_F16 = 1,
    LP_T_Q4_0 = 2,
    LP_T_Q4_1 = 3,
    LP_T_Q5_0 = 6,
    LP_T_Q5_1 = 7,
    LP_T_Q8_0 = 8,
    LP_T_IQ4_NL = 20,
    LP_T_BF16 = 30,
};

#endif
