# The libraries that opc stands on. All are Debian 12 packages, installed by tools/dev/setup.sh (docs/dependencies.md).
# SPDX-License-Identifier: Apache-2.0
set(ZLIB_USE_STATIC_LIBS ON)
find_package(Protobuf 3.21 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED CONFIG)
find_package(CLI11 2.1 REQUIRED CONFIG)
find_package(Threads REQUIRED)

# toml++ is read as a header: its Debian library would have to be beside every opc.
find_path(OPC_TOMLPLUSPLUS_INCLUDE toml++/toml.h)
if(NOT OPC_TOMLPLUSPLUS_INCLUDE)
  message(FATAL_ERROR "toml++/toml.h was not found (Debian: libtomlplusplus-dev); tools/dev/setup.sh installs what is missing")
endif()

# libgomp is the one thread pool of the process: oneDNN uses it, and so do opc's own loops (kernels/cpu/Parallel.cpp).
# ThreadSanitizer does not see libgomp's barriers; LLVM's OpenMP has libgomp's entry points and tells it about them (archer).
if(OPC_SANITIZE MATCHES thread)
  find_library(OPC_GOMP NAMES omp PATHS /usr/lib/llvm-22/lib REQUIRED)
else()
  find_library(OPC_GOMP NAMES gomp libgomp.so.1 REQUIRED)
endif()
add_library(opc_gomp INTERFACE)
target_link_libraries(opc_gomp INTERFACE ${OPC_GOMP})

# protobuf statically: its generated code and its version stay private to opc.
find_library(OPC_PROTOBUF_STATIC NAMES libprotobuf.a REQUIRED)
add_library(opc_protobuf INTERFACE)
target_include_directories(opc_protobuf SYSTEM INTERFACE ${Protobuf_INCLUDE_DIRS})
# Debian's archive is no position independent code: libraries for other programs (runtime/capi) link the shared one.
target_link_libraries(opc_protobuf INTERFACE
  $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>,${Protobuf_LIBRARIES},${OPC_PROTOBUF_STATIC}> ZLIB::ZLIB Threads::Threads)

# The allocator of the command opc, statically; sanitizers bring their own.
add_library(opc_allocator INTERFACE)
if(NOT OPC_SANITIZE)
  find_library(OPC_JEMALLOC NAMES libjemalloc_pic.a)
  if(OPC_JEMALLOC)
    target_link_libraries(opc_allocator INTERFACE ${OPC_JEMALLOC} ${CMAKE_DL_LIBS})
  else()
    message(STATUS "no jemalloc (Debian: libjemalloc-dev): large graphs compile more slowly")
  endif()
endif()

# oneDNN by name: its own CMake package asks for OpenCL headers that a CPU build does not need.
find_path(OPC_DNNL_INCLUDE dnnl.hpp REQUIRED)
find_library(OPC_DNNL dnnl REQUIRED)
add_library(opc_dnnl INTERFACE)
target_include_directories(opc_dnnl SYSTEM INTERFACE ${OPC_DNNL_INCLUDE})
target_link_libraries(opc_dnnl INTERFACE ${OPC_DNNL})

# MPI is optional: it makes libopc_mpi.so, the engine of jobs of several processes.
find_package(MPI COMPONENTS C QUIET)
if(NOT MPI_C_FOUND)
  message(STATUS "no MPI (Debian: libopenmpi-dev): ranks of a job can only be threads of one process")
endif()

# What opc declares of CUDA is compared with CUDA's own header where that is.
find_path(OPC_CUDA_INCLUDE cuda_runtime_api.h PATHS /usr/local/cuda/include)

# A machine without Debian's packages gets the shared libraries beside the programs (preset "portable").
if(OPC_PORTABLE)
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
  foreach(name dnnl gomp OpenCL z3)
    find_library(OPC_CARRY_${name} NAMES ${name} lib${name}.so.1)
    if(OPC_CARRY_${name})
      file(REAL_PATH ${OPC_CARRY_${name}} real)
      execute_process(COMMAND objdump -p ${real} OUTPUT_VARIABLE headers ERROR_QUIET)
      if(headers MATCHES "SONAME +([^ \n]+)")
        install(FILES ${real} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME ${CMAKE_MATCH_1})
      endif()
    endif()
  endforeach()
endif()
