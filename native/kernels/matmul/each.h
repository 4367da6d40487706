/* For sources that are compiled once per weight format, each time with LP_FORMAT, its name, and
 * LP_FORMAT_H, its file, defined (see the Makefile). */
#ifndef LP_EACH_H
#define LP_EACH_H

#include LP_FORMAT_H

#define LP_JOINED(a, w, b) a##w##b
#define LP_JOIN(a, w, b) LP_JOINED(a, w, b)
/* The name that begins with a, then the format's, then b. */
#define LP_OF_FORMAT(a, b) LP_JOIN(a, LP_FORMAT, b)

#endif
