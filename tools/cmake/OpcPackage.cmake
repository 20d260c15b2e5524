# What an installation offers to programs: libopc for C, libopc_runtime and libopc_compiler for C++, and find_package(opc).
# SPDX-License-Identifier: Apache-2.0
#
# Each library holds everything of opc that it needs and shows its public headers' names alone, so that MLIR, protobuf and
# the operators' own copy of the SDK stay inside, and plugins bring libopc_sdk as ever (docs/adr/0003). A program links one
# of them: libopc_compiler has all that libopc_runtime has, and the C interface with a compiler.

# opc_public_headers(OUT ROOTS folder... NAMES name... [WITHOUT file...]): these headers and all that they include of opc's own.
# Headers are named, not located: names are unique. WITHOUT: what is public already.
function(opc_public_headers out)
  cmake_parse_arguments(A "" "" "ROOTS;NAMES;WITHOUT" ${ARGN})
  set(found)
  set(waiting ${A_NAMES})
  while(waiting)
    list(POP_FRONT waiting name)
    set(here)
    foreach(root ${A_ROOTS})
      file(GLOB_RECURSE one CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${root}/${name})
      list(APPEND here ${one})
    endforeach()
    list(LENGTH here count)
    if(NOT count EQUAL 1)
      message(FATAL_ERROR "the public header ${name} is there ${count} times: ${here}")
    endif()
    if(here IN_LIST found OR here IN_LIST A_WITHOUT)
      continue()
    endif()
    list(APPEND found ${here})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${here})
    file(STRINGS ${here} includes REGEX "^#include \"[^/]+\"")
    list(TRANSFORM includes REPLACE "^#include \"([^\"]+)\".*" "\\1")
    list(APPEND waiting ${includes})
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# opc_export_map(FILE [C] header...): a version script of the classes and functions that the headers declare; with C those
# of opc.h, too.
function(opc_export_map file)
  cmake_parse_arguments(A "C" "" "" ${ARGN})
  set(names)
  foreach(header ${A_UNPARSED_ARGUMENTS})
    file(STRINGS ${header} lines REGEX "^[A-Za-z].*")
    foreach(line IN LISTS lines)
      if(line MATCHES "^(class|struct) (\\[\\[nodiscard\\]\\] )?([A-Za-z]+)")
        set(class ${CMAKE_MATCH_3})
        list(APPEND names opc::${class}::* vtable?for?opc::${class} typeinfo?for?opc::${class})
      elseif(line MATCHES "^[A-Za-z][A-Za-z0-9_:<>*&, ]* [*&]?([a-z][A-Za-z0-9]*)\\(")
        list(APPEND names opc::${CMAKE_MATCH_1}*)
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES names)
  list(JOIN names "$<SEMICOLON>\n    " body)
  set(c_names)
  if(A_C)
    file(STRINGS ${PROJECT_SOURCE_DIR}/runtime/capi/opc.map c_lines REGEX "^ +opc_")
    foreach(line IN LISTS c_lines)
      string(REGEX MATCH "opc_[a-z_]+" name ${line})
      string(APPEND c_names "  ${name}$<SEMICOLON>\n")
    endforeach()
  endif()
  file(GENERATE OUTPUT ${file} CONTENT
    "{ global:\n${c_names}  extern \"C++\" {\n    ${body}$<SEMICOLON>\n  }$<SEMICOLON>\nlocal: *$<SEMICOLON>\n}$<SEMICOLON>\n")
endfunction()

# opc_package_library(NAME SOVERSION v MAP file SOURCES source... [LINK target...] [WHOLE target...] [FOLDERS name...])
# A shared library with the operators and all of WHOLE inside; FOLDERS of include/opc hold its headers.
function(opc_package_library name)
  cmake_parse_arguments(A "" "SOVERSION;MAP" "SOURCES;LINK;WHOLE;FOLDERS" ${ARGN})
  # Objects, not archives: nothing in here asks for what programs will call.
  add_library(${name} SHARED ${A_SOURCES})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  foreach(whole ${A_WHOLE})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${whole}>)
  endforeach()
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:opc_flags> ${A_LINK} ${A_WHOLE} opc_session opc_registry opc_builtin_ops)
  target_link_options(${name} PRIVATE -Wl,--version-script=${A_MAP} -Wl,-Bsymbolic)
  if(NOT OPC_SANITIZE) # its functions come with the program
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${A_SOVERSION} LINK_DEPENDS ${A_MAP})
  target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(A_FOLDERS) # C++: the values in its headers are the SDK's, whose functions are in libopc_sdk
    target_compile_features(${name} INTERFACE cxx_std_20)
    target_link_libraries(${name} INTERFACE opc_sdk)
    # A program links one of them.
    set_target_properties(${name} PROPERTIES INTERFACE_OPC_LIBRARY ${name} COMPATIBLE_INTERFACE_STRING OPC_LIBRARY)
  endif()
  foreach(folder ${A_FOLDERS})
    target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/opc/${folder}>)
  endforeach()
  install(TARGETS ${name} EXPORT opcTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()
