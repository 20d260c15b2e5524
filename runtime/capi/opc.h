/* opc from C: compile graphs, load plans, feed, run and fetch. Opaque handles, status codes, DLPack tensors
 * (docs/c-api.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- versions ----------------------------------------------------------------------------------------------------- */

/* A library serves programs of its own major version and of a minor version that is not above its own. */
#define OPC_API_VERSION_MAJOR 1
#define OPC_API_VERSION_MINOR 2
#define OPC_API_VERSION ((OPC_API_VERSION_MAJOR << 16) | OPC_API_VERSION_MINOR)

/* OPC_API_VERSION of the library that is loaded. */
uint32_t opc_api_version(void);
/* The release, as `opc --version` prints it. */
const char *opc_version(void);

/* --- status ------------------------------------------------------------------------------------------------------- */

/* What every call that can fail returns. The numbers are the exit codes of the command line. */
typedef int32_t opc_status;
enum {
  OPC_OK = 0,
  OPC_USAGE = 2,         /* a bad argument: a null handle, an unknown name, a wrong type or shape, a missing file */
  OPC_INVALID_GRAPH = 3, /* the graph, plan or tensor file is not valid */
  OPC_UNSUPPORTED = 4,   /* valid, but not possible here: no kernel, another version, too little memory, no compiler */
  OPC_EXECUTION = 5,     /* a kernel failed, or memory ran out */
  OPC_INTERNAL = 70      /* a bug in opc */
};

/* The last failure of this thread. The texts are never null and live until the thread's next failure. */
typedef struct opc_error {
  opc_status status;   /* OPC_OK: nothing has failed */
  const char *code;    /* "OPC0611", as `opc explain` and docs/errors.md know it; or "" */
  const char *message; /* one sentence, with the place where it happened */
  const char *help;    /* the way out, or "" */
} opc_error;
opc_error opc_last_error(void);

/* --- tensors: the structs of DLPack (https://dmlc.github.io/dlpack/latest/c_api.html), under names of our own
 * ---------- */

typedef struct opc_dl_device {
  int32_t device_type; /* 1: CPU */
  int32_t device_id;
} opc_dl_device;

typedef struct opc_dl_data_type {
  uint8_t code; /* 0 int, 1 unsigned int, 2 float, 4 bfloat, 6 bool, 10 to 14 float8 e4m3fn, e4m3fnuz, e5m2, e5m2fnuz,
                   e8m0fnu */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} opc_dl_data_type;

/* DLTensor */
typedef struct opc_dl_tensor {
  void *data;
  opc_dl_device device;
  int32_t ndim;
  opc_dl_data_type dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; null: row-major without gaps */
  uint64_t byte_offset;
} opc_dl_tensor;

/* DLManagedTensor */
typedef struct opc_dl_managed_tensor {
  opc_dl_tensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct opc_dl_managed_tensor *self);
} opc_dl_managed_tensor;

/* --- contexts: the operators that are known ------------------------------------------------------------------------
 */

/* Operators, and the plugins that were loaded. Outlives its plans and sessions. Once a plan has been compiled or a
 * session made of it, no plugin can be added; from then on it may be used by several threads. */
typedef struct opc_context opc_context;

/* `api_version` is OPC_API_VERSION of the header that the program was compiled with. OPC_UNSUPPORTED: the library
 * cannot serve it. */
opc_status opc_context_create(uint32_t api_version, opc_context **context);
opc_status opc_context_load_plugin(opc_context *context, const char *path);
/* Whether sessions that are made from now on run the machine code that their plans bring (`opc compile --native`), as
 * `allowed` says; at first they do not, and interpret such plans with the same bits. It is as trusted as the program
 * itself. Since 1.2. */
opc_status opc_context_allow_native(opc_context *context, int32_t allowed);
void opc_context_destroy(opc_context *context); /* null is allowed, as for every destroy */

/* --- plans -------------------------------------------------------------------------------------------------------- */

/* The bytes of a compiled graph. */
typedef struct opc_plan opc_plan;

opc_status opc_plan_load_file(opc_context *context, const char *path, opc_plan **plan);
/* Copies the bytes. What they mean is checked when a session is made of them. */
opc_status opc_plan_load(opc_context *context, const void *bytes, size_t size, opc_plan **plan);
/* Compiles a graph file, protobuf text or binary. OPC_UNSUPPORTED (OPC0907) in libopc, which has no compiler: link
 * libopc_compiler, which has all of libopc and this. */
opc_status opc_plan_compile_file(opc_context *context, const char *path, opc_plan **plan);
/* The plan's bytes, as `opc compile` writes them; they live as long as the plan. */
opc_status opc_plan_bytes(const opc_plan *plan, const void **bytes, size_t *size);
void opc_plan_destroy(opc_plan *plan);

/* --- sessions ----------------------------------------------------------------------------------------------------- */

/* A plan with its memory and kernels, and nothing shared with other sessions: each may be used by one thread at a time.
 */
typedef struct opc_session opc_session;

/* Zero is every field's default, `size` aside. */
typedef struct opc_session_options {
  size_t size;         /* sizeof(opc_session_options) */
  int32_t threads;     /* at most 4096; 0: one for each core */
  int32_t reserved;    /* 0 */
  uint64_t max_memory; /* most bytes that the plan may take; 0: nine tenths of this machine's memory */
  uint64_t seed;       /* for initializers and random operators */
} opc_session_options;

/* `options` may be null. The plan may be destroyed afterwards. */
opc_status opc_session_create(opc_context *context, const opc_plan *plan, const opc_session_options *options,
                              opc_session **session);
void opc_session_destroy(opc_session *session);

typedef int32_t opc_port_kind;
enum { OPC_INPUT = 0, OPC_OUTPUT = 1, OPC_VARIABLE = 2 };

/* A named tensor at the border of the plan. `name` and `shape` live as long as the session. */
typedef struct opc_port {
  const char *name;
  const int64_t *shape;
  int32_t ndim;
  opc_dl_data_type dtype;
} opc_port;

opc_status opc_session_port_count(const opc_session *session, opc_port_kind kind, size_t *count);
/* In the plan's order, as opc show lists it: that of an ONNX model, and else the canonical one of graph files, which is
 * not that of the file (docs/graph-format.md). Names stay: look for them. */
opc_status opc_session_port(const opc_session *session, opc_port_kind kind, size_t index, opc_port *port);
/* The same with the smallest shape that the port can have, where opc_session_port gives the largest: they differ where
 * the plan leaves sizes open. An input is fed with any shape between them; inputs that share a size agree about it when
 * the session runs. Since 1.1. */
opc_status opc_session_port_smallest(const opc_session *session, opc_port_kind kind, size_t index, opc_port *port);

/* Copies the tensor, which may have any strides, into the input. */
opc_status opc_session_feed(opc_session *session, const char *input, const opc_dl_tensor *tensor);
/* Takes the tensor over: the following runs read it where it is when it is contiguous and aligned to 64 bytes, and a
 * copy of it otherwise. Its deleter is called when the input is fed another one, or with the session; after an error it
 * stays the caller's. Its values may be changed between runs. */
opc_status opc_session_feed_owned(opc_session *session, const char *input, opc_dl_managed_tensor *tensor);
/* Copies the tensor into the variable. */
opc_status opc_session_set_variable(opc_session *session, const char *variable, const opc_dl_tensor *tensor);
/* All variables that the file has (npz, safetensors, a folder of npy files), by their names. `count` gets how many
 * those are; with a null `count` the file must have every variable that was not set before (else OPC_USAGE, OPC0717). A
 * file that has none of the variables is refused in both cases. Nothing is set unless names, shapes and element types
 * fit. */
opc_status opc_session_load_variables(opc_session *session, const char *path, size_t *count);
/* Runs `steps` steps. */
opc_status opc_session_run(opc_session *session, int64_t steps);
/* A new tensor with the output as the last step left it. The caller owns it: tensor->deleter(tensor) frees it. */
opc_status opc_session_fetch(opc_session *session, const char *output, opc_dl_managed_tensor **tensor);
/* The same of a variable's present value. */
opc_status opc_session_variable(opc_session *session, const char *variable, opc_dl_managed_tensor **tensor);

#ifdef __cplusplus
}
#endif
