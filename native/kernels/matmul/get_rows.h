/* get_rows: the walk over ids that all table types share. */
#ifndef LP_GET_ROWS_H
#define LP_GET_ROWS_H

#include "lp.h"

/* Writes the k values of a row of the table to dst as f32. */
typedef void (*lp_row_fn)(const uint8_t *row, int64_t k, char *dst);

int lp_get_rows(const struct lp_args *a, int64_t task, lp_row_fn row);

#endif
