// A library that was compiled against an SDK of another version.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Version.h"
#undef OPC_SDK_API_VERSION
#define OPC_SDK_API_VERSION 999
#include "opc/Op.h"

REGISTER_USER_OP("from_the_future").Input("x").Output("y");
