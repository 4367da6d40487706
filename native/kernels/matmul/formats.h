/* Every weight format. */
#include "fmt_q4_0.h"
#include "fmt_q4_1.h"
#include "fmt_q4_K.h"
#include "fmt_q5_0.h"
#include "fmt_q5_1.h"
#include "fmt_q5_K.h"
#include "fmt_q6_K.h"
#include "fmt_q8_0.h"
