// The test program's main, in a translation unit of its own because it is slow to compile.
// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
