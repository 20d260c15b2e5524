# nvcc, where there is one, and the function that turns CUDA sources into PTX.
# SPDX-License-Identifier: Apache-2.0
find_program(OPC_NVCC nvcc HINTS /usr/local/cuda/bin)
if(OPC_NVCC)
  message(STATUS "nvcc: ${OPC_NVCC}")
else()
  message(STATUS "nvcc: not found, so that this build has no kernels for GPUs")
endif()

# Products and sums are rounded one by one, as on the CPU, where a source does not say fma.
# opc_ptx(SOURCE LIST [option...]): PTX of one source, appended to LIST, for compute capability 7.5 and later; of
# NAME.compute_80.cu for 8.0 and later.
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
  set(${list} ${${list}} ${out} PARENT_SCOPE)
endfunction()
