# Assembles one PTX module for one compute capability: cmake -DPTXAS=.. -DPTX=.. -DARCH=80 -DOUT=.. -P Cubin.cmake
# What ptxas says of registers and spills goes to OUT's .log, which the test gpusim_ptxas reads.
# SPDX-License-Identifier: Apache-2.0
# The text of the PTX, which -lineinfo would put into the cubin, stays out: it is half of the bytes.
execute_process(COMMAND ${PTXAS} -v -lineinfo -suppress-debug-info -arch=sm_${ARCH} -o ${OUT} ${PTX}
  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
file(WRITE ${OUT}.log "${said}")
if(NOT result EQUAL 0)
  file(REMOVE ${OUT})
  message(FATAL_ERROR "ptxas: ${PTX} for sm_${ARCH}: ${said}")
endif()
