# nvcc, where there is one, and the function that turns CUDA sources into PTX, and that into machine code.
# SPDX-License-Identifier: Apache-2.0
find_program(OPC_NVCC nvcc HINTS /usr/local/cuda/bin)
# Code for X.Y runs on X.Z from Z = Y on: the default serves every GPU but those older than 7.5, and later ones than 9.x.
set(OPC_CUBINS "75;80;90" CACHE STRING "Compute capabilities of machine code beside the PTX, out of 75;80;86;89;90, or none")
if(OPC_NVCC)
  message(STATUS "nvcc: ${OPC_NVCC}")
  get_filename_component(folder ${OPC_NVCC} DIRECTORY)
  find_program(OPC_PTXAS ptxas HINTS ${folder})
  foreach(arch ${OPC_CUBINS})
    if(NOT arch MATCHES "^(75|80|86|89|90|none)$")
      message(FATAL_ERROR "OPC_CUBINS is ${OPC_CUBINS}, and takes some of 75;80;86;89;90, or none")
    endif()
  endforeach()
  if(NOT OPC_PTXAS)
    message(STATUS "ptxas: not found, so that GPUs' drivers compile the PTX")
  endif()
else()
  message(STATUS "nvcc: not found, so that this build has no kernels for GPUs")
endif()

# Products and sums are rounded one by one, as on the CPU, where a source does not say fma.
# opc_ptx(SOURCE LIST [option...]): PTX of one source, appended to LIST, for compute capability 7.5 and later; of
# NAME.compute_80.cu for 8.0 and later. Behind it the cubins that ptxas makes of that very PTX (OPC_CUBINS).
function(opc_ptx source list)
  get_filename_component(name ${source} NAME_WE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/code/${name}.ptx)
  set(arch compute_75)
  if(source MATCHES "\\.(compute_[0-9]+)\\.cu$")
    set(arch ${CMAKE_MATCH_1})
  endif()
  set(sdk ${PROJECT_SOURCE_DIR}/kernels/sdk/include)
  add_custom_command(OUTPUT ${out}
    COMMAND ${OPC_NVCC} -ptx -arch=${arch} -std=c++20 --expt-relaxed-constexpr -diag-suppress 186 -fmad=false ${ARGN}
            -I${sdk} -I${PROJECT_SOURCE_DIR}/kernels/cuda -I${PROJECT_SOURCE_DIR}/kernels/ops
            -MD -MF ${out}.d -MT ${out} -o ${out} ${source}
    DEPENDS ${source} DEPFILE ${out}.d COMMENT "PTX of ${name}" VERBATIM)
  set(made ${out})
  foreach(target ${OPC_CUBINS})
    if(NOT OPC_PTXAS OR target STREQUAL none OR "compute_${target}" STRLESS arch)
      continue()
    endif()
    set(cubin ${CMAKE_CURRENT_BINARY_DIR}/code/${name}.sm_${target}.cubin)
    add_custom_command(OUTPUT ${cubin} BYPRODUCTS ${cubin}.log
      COMMAND ${CMAKE_COMMAND} -DPTXAS=${OPC_PTXAS} -DPTX=${out} -DARCH=${target} -DOUT=${cubin}
              -P ${PROJECT_SOURCE_DIR}/tools/cmake/Cubin.cmake
      DEPENDS ${out} ${PROJECT_SOURCE_DIR}/tools/cmake/Cubin.cmake COMMENT "Cubin of ${name}, sm_${target}" VERBATIM)
    list(APPEND made ${cubin})
  endforeach()
  set(${list} ${${list}} ${made} PARENT_SCOPE)
endfunction()
