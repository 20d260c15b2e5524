// The driver's functions as a program has them that opens libcuda.so.1 at run time, and how a test says what it found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DriverFunctions.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace opc::gpusim::driver {

/// All functions of the library that OPC_GPUSIM_LIBRARY names.
struct DriverTable {
#define GPUSIM_MEMBER(symbol, name, parameters) CuResult(*symbol) parameters = nullptr;
  GPUSIM_FUNCTIONS(GPUSIM_MEMBER)
#undef GPUSIM_MEMBER

  DriverTable() {
    const char *path = std::getenv("OPC_GPUSIM_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) {
      std::printf("OPC_GPUSIM_LIBRARY cannot be opened: %s\n", path ? dlerror() : "it is not set");
      std::exit(2);
    }
#define GPUSIM_FIND(symbol, name, parameters)                                                                          \
  symbol = reinterpret_cast<CuResult(*) parameters>(dlsym(library, #symbol));                                          \
  if (!symbol) std::printf("no %s\n", #symbol), std::exit(2);
    GPUSIM_FUNCTIONS(GPUSIM_FIND)
#undef GPUSIM_FIND
  }
};

inline DriverTable &cuda() {
  static DriverTable table;
  return table;
}

} // namespace opc::gpusim::driver
