/* How an operation on rows is cut into tasks, and how a task walks its share. No instruction set.
 *
 * A node's work is a line of units: row after row of the shape that is written, LP_UNIT elements of
 * axis 0 each (the last one of a row may be shorter). A task takes a contiguous stretch of units.
 * So a long row can be shared, and a unit never splits an X8 group of 32. Where an element needs
 * its whole row (norms), the unit is the row. */
#ifndef LP_WALK_H
#define LP_WALK_H

#include <stdbool.h>
#include <string.h>
#include "lp.h"

#define LP_UNIT 64

struct lp_walk {
    int64_t ne[4];
    int64_t per_row, unit, end; /* units of a row, the next unit, one past the last */
    int64_t i[4];               /* of the stretch: first element of axis 0, then the row's index */
    int64_t len;                /* elements of the stretch */
};

static inline int64_t lp_rows(const struct lp_opnd *t) {
    return t->ne[1] * t->ne[2] * t->ne[3];
}
static inline int64_t lp_units(const struct lp_opnd *t) {
    return lp_rows(t) * ((t->ne[0] + LP_UNIT - 1) / LP_UNIT);
}
static inline struct lp_walk lp_walk_units(const struct lp_opnd *t, int64_t task, int64_t n_tasks) {
    int64_t total = lp_units(t);
    struct lp_walk w = {.ne = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]},
                        .per_row = (t->ne[0] + LP_UNIT - 1) / LP_UNIT,
                        .unit = total * task / n_tasks,
                        .end = total * (task + 1) / n_tasks};
    return w;
}
/* Steps to the next stretch within one row; false when the task is done. */
static inline bool lp_walk_next(struct lp_walk *w) {
    if (w->unit >= w->end) {
        return false;
    }
    int64_t row = w->unit / w->per_row, first = w->unit % w->per_row;
    int64_t n = w->per_row - first < w->end - w->unit ? w->per_row - first : w->end - w->unit;
    w->unit += n;
    w->i[0] = first * LP_UNIT;
    w->len = n * LP_UNIT < w->ne[0] - w->i[0] ? n * LP_UNIT : w->ne[0] - w->i[0];
    w->i[1] = row % w->ne[1];
    w->i[2] = row / w->ne[1] % w->ne[2];
    w->i[3] = row / w->ne[1] / w->ne[2];
    return true;
}
/* Bytes from an operand's start to the row at index i, repeating the operand along short axes. */
static inline int64_t lp_row_offs(const struct lp_opnd *t, const int64_t *i) {
    return i[1] % t->ne[1] * t->nb[1] + i[2] % t->ne[2] * t->nb[2] + i[3] % t->ne[3] * t->nb[3];
}
/* Of set_rows: the i32 id for the row at index i; ids repeat along axes 1 and 2. */
static inline int32_t lp_id_at(const char *ids, const struct lp_opnd *t, const int64_t *i) {
    int32_t id;
    int64_t at =
        i[1] % t->ne[0] * t->nb[0] + i[2] % t->ne[1] * t->nb[1] + i[3] % t->ne[2] * t->nb[2];
    memcpy(&id, ids + at, 4);
    return id;
}
/* Index of row number r of a shape, as lp_row_offs takes it. */
static inline void lp_row_index(const struct lp_opnd *t, int64_t r, int64_t *i) {
    i[0] = 0;
    i[1] = r % t->ne[1];
    i[2] = r / t->ne[1] % t->ne[2];
    i[3] = r / t->ne[1] / t->ne[2];
}

#endif
