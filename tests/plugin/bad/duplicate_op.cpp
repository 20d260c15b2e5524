// A library that registers an op that opc has.
#include "opc/Op.h"

REGISTER_USER_OP("matmul").Input("a").Output("out");
