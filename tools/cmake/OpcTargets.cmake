# opc_library: one folder, one target, one include root.
# SPDX-License-Identifier: Apache-2.0

option(OPC_PORTABLE "Carry the libraries that a bare machine lacks beside the binaries" OFF)

add_library(opc_flags INTERFACE)
target_compile_options(opc_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-overloaded-virtual
                                           -Wno-deprecated-declarations # std::stable_sort of libstdc++ 12 under clang
                                          
                                           -ffunction-sections -fdata-sections)
target_link_options(opc_flags INTERFACE -Wl,--as-needed)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_link_options(opc_flags INTERFACE -fuse-ld=lld)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    # What runs before main lies together: beside the kernels it would bring half of the program into memory.
    target_link_options(opc_flags INTERFACE -Wl,--gc-sections -Wl,--icf=all -Wl,-z,keep-text-section-prefix)
  endif()
elseif(EXISTS /usr/lib/llvm-22/bin/ld.lld)
  target_link_options(opc_flags INTERFACE -B/usr/lib/llvm-22/bin -fuse-ld=lld)
endif()
if(OPC_SANITIZE)
  target_compile_options(opc_flags INTERFACE -fsanitize=${OPC_SANITIZE} -fno-omit-frame-pointer)
  if(OPC_SANITIZE MATCHES undefined)
    # vptr checks need RTTI of MLIR's classes, which its archives do not always carry; function checks read a type in front
    # of each function that is called, which generated code and drivers in C do not have.
    target_compile_options(opc_flags INTERFACE -fno-sanitize=vptr,function -fno-sanitize-recover=undefined)
  endif()
  target_link_options(opc_flags INTERFACE -fsanitize=${OPC_SANITIZE})
endif()
if(OPC_FUZZ) # libFuzzer's coverage in our own libraries; MLIR, protobuf and oneDNN stay as they are
  target_compile_options(opc_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
find_program(OPC_CCACHE ccache)
if(OPC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Another clone of the same sources finds what this one compiled, and __FILE__ in registrations names no folder of this
  # machine.
  set(launcher ${CMAKE_CURRENT_LIST_DIR}/compile_cached.sh ${CMAKE_SOURCE_DIR} ${OPC_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} CACHE STRING "" FORCE)
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher} CACHE STRING "" FORCE)
endif()

# opc_library(NAME DIR [RECURSE] [DEPS target...] [PRIVATE target...])
# A static library of the .cpp files in DIR (and below it with RECURSE). DIR is the include root of whoever links it.
function(opc_library name dir)
  cmake_parse_arguments(A "RECURSE" "" "DEPS;PRIVATE" ${ARGN})
  set(glob GLOB)
  if(A_RECURSE)
    set(glob GLOB_RECURSE)
  endif()
  file(${glob} sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  if(sources)
    add_library(${name} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${name} PRIVATE opc_flags ${A_PRIVATE})
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${name} ${scope} $<BUILD_INTERFACE:${dir}>)
  target_link_libraries(${name} ${scope} ${A_DEPS})
endfunction()

# Precompiled headers. A source still includes what it uses: tools/dev/tidy reads it without them. They are compared by
# what they hold, not by when they were made, or ccache would never find what was compiled with one.
function(opc_comparable_precompiled name)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# opc_precompile(NAME header...): the headers that most sources of a target spend their time on.
function(opc_precompile name)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  opc_comparable_precompiled(${name})
endfunction()

# opc_precompiled_as(FIRST NAME...): targets with the options of FIRST share its precompiled headers.
function(opc_precompiled_as first)
  foreach(name IN LISTS ARGN)
    target_precompile_headers(${name} REUSE_FROM ${first})
    opc_comparable_precompiled(${name})
  endforeach()
endfunction()
