/* A model inside of a C program: loads a plan and its weights, feeds images, runs, and prints what it reads.
 *
 *   cc -std=c99 read_digits.c -IPREFIX/include -LPREFIX/lib -lopc -o read_digits
 *   read_digits PLAN WEIGHTS IMAGES
 *
 * PLAN is what `opc compile docs/examples/digits/mlp.pbtxt` writes, or with libopc_compiler the graph itself. IMAGES is
 * a file of f32 numbers in this machine's order, as many as the input has. */
#include <opc/opc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *doing) {
  const opc_error e = opc_last_error();
  fprintf(stderr, "%s: %s: %s; %s\n", doing, e.code, e.message, e.help);
  return e.status;
}

static int is_graph(const char *path) {
  const size_t length = strlen(path);
  return length > 6 && strcmp(path + length - 6, ".pbtxt") == 0;
}

/* The input's elements, from a file. */
static float *read_images(const char *path, const opc_port *input) {
  size_t count = 1;
  for (int32_t i = 0; i < input->ndim; ++i) count *= (size_t)input->shape[i];
  float *data = malloc(count * sizeof *data);
  FILE *file = fopen(path, "rb");
  const size_t got = data && file ? fread(data, sizeof *data, count, file) : 0;
  if (file) fclose(file);
  if (got == count) return data;
  fprintf(stderr, "%s has not the %lu numbers of the input\n", path, (unsigned long)count);
  free(data);
  return NULL;
}

static void print_digits(const opc_dl_tensor *logits) {
  const float *row = logits->data;
  const int64_t classes = logits->shape[1];
  for (int64_t i = 0; i < logits->shape[0]; ++i, row += classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c)
      if (row[c] > row[best]) best = c;
    printf("%d\n", (int)best);
  }
}

static int run(opc_session *session, const char *images) {
  opc_port input;
  if (opc_session_port(session, OPC_INPUT, 0, &input)) return fail("asking for the input");
  float *pixels = read_images(images, &input);
  if (!pixels) return OPC_USAGE;

  opc_dl_tensor tensor;
  memset(&tensor, 0, sizeof tensor); /* no strides: row-major */
  tensor.data = pixels;
  tensor.device.device_type = 1; /* CPU */
  tensor.ndim = input.ndim;
  tensor.dtype = input.dtype;
  tensor.shape = (int64_t *)input.shape;
  opc_status status = opc_session_feed(session, input.name, &tensor); /* copies */
  free(pixels);
  if (status) return fail("feeding");

  opc_dl_managed_tensor *logits = NULL;
  if (opc_session_run(session, 1)) return fail("running");
  if (opc_session_fetch(session, "logits", &logits)) return fail("fetching");
  print_digits(&logits->dl_tensor);
  logits->deleter(logits);
  return OPC_OK;
}

int main(int argc, char **argv) {
  opc_context *context = NULL;
  opc_plan *plan = NULL;
  opc_session *session = NULL;
  opc_session_options options;
  int status = OPC_OK;
  if (argc != 4) {
    fprintf(stderr, "usage: read_digits PLAN|GRAPH.pbtxt WEIGHTS IMAGES\n");
    return OPC_USAGE;
  }
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = 1; /* a network this small is faster on one thread */
  if (opc_context_create(OPC_API_VERSION, &context))
    status = fail("starting");
  else if (is_graph(argv[1]) ? opc_plan_compile_file(context, argv[1], &plan)
                             : opc_plan_load_file(context, argv[1], &plan))
    status = fail("reading the plan");
  else if (opc_session_create(context, plan, &options, &session))
    status = fail("loading the plan");
  else if (opc_session_load_variables(session, argv[2], NULL))
    status = fail("reading the weights");
  else
    status = run(session, argv[3]);
  opc_session_destroy(session);
  opc_plan_destroy(plan);
  opc_context_destroy(context);
  return status;
}
