/* Prints the layout of every struct of opc.h and the value of every constant, as a C99 compiler sees them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "opc.h"

#include <stdio.h>

#define SIZE(type) printf("%s size %lu\n", #type, (unsigned long)sizeof(type))
#define FIELD(type, field)                                                                                             \
  printf("%s.%s at %lu size %lu\n", #type, #field, (unsigned long)offsetof(type, field),                               \
         (unsigned long)sizeof(((type *)0)->field))
#define VALUE(name) printf("%s %ld\n", #name, (long)(name))

int main(void) {
  VALUE(OPC_API_VERSION_MAJOR);
  VALUE(OPC_OK);
  VALUE(OPC_USAGE);
  VALUE(OPC_INVALID_GRAPH);
  VALUE(OPC_UNSUPPORTED);
  VALUE(OPC_EXECUTION);
  VALUE(OPC_INTERNAL);
  VALUE(OPC_INPUT);
  VALUE(OPC_OUTPUT);
  VALUE(OPC_VARIABLE);
  SIZE(opc_status);
  SIZE(opc_port_kind);
  SIZE(opc_error);
  FIELD(opc_error, status);
  FIELD(opc_error, code);
  FIELD(opc_error, message);
  FIELD(opc_error, help);
  SIZE(opc_dl_device);
  FIELD(opc_dl_device, device_type);
  FIELD(opc_dl_device, device_id);
  SIZE(opc_dl_data_type);
  FIELD(opc_dl_data_type, code);
  FIELD(opc_dl_data_type, bits);
  FIELD(opc_dl_data_type, lanes);
  SIZE(opc_dl_tensor);
  FIELD(opc_dl_tensor, data);
  FIELD(opc_dl_tensor, device);
  FIELD(opc_dl_tensor, ndim);
  FIELD(opc_dl_tensor, dtype);
  FIELD(opc_dl_tensor, shape);
  FIELD(opc_dl_tensor, strides);
  FIELD(opc_dl_tensor, byte_offset);
  SIZE(opc_dl_managed_tensor);
  FIELD(opc_dl_managed_tensor, dl_tensor);
  FIELD(opc_dl_managed_tensor, manager_ctx);
  FIELD(opc_dl_managed_tensor, deleter);
  SIZE(opc_session_options);
  FIELD(opc_session_options, size);
  FIELD(opc_session_options, threads);
  FIELD(opc_session_options, reserved);
  FIELD(opc_session_options, max_memory);
  FIELD(opc_session_options, seed);
  SIZE(opc_port);
  FIELD(opc_port, name);
  FIELD(opc_port, shape);
  FIELD(opc_port, ndim);
  FIELD(opc_port, dtype);
  return 0;
}
