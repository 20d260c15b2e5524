// A model inside of a C++ program: loads a plan and its weights, feeds images, runs, and prints what it reads.
//
//   read_digits PLAN WEIGHTS IMAGES.npy
//
// PLAN is what `opc compile docs/examples/digits/mlp.pbtxt` writes; it says how many images a run takes.

#include "Session.h"

#include <cstdio>

using namespace opc;

namespace {

/// Gives every variable its value; one that the file lacks is an error.
Status loadWeights(Session &session, const std::string &path) {
  OPC_ASSIGN_OR_RETURN(const std::unique_ptr<TensorArchive> archive, openTensorArchive(path));
  for (const PortInfo &v : session.interface().variables) {
    OPC_ASSIGN_OR_RETURN(const HostTensor value, archive->read(v.name));
    OPC_RETURN_IF_ERROR(session.setVariable(v.name, value));
  }
  return Status::ok();
}

Status readDigits(const std::string &plan, const std::string &weights, const std::string &images) {
  Registry registry;
  OPC_RETURN_IF_ERROR(registry.addLinked());
  registry.freeze();
  OPC_ASSIGN_OR_RETURN(const FileBytes bytes, FileBytes::open(plan));
  SessionOptions options;
  options.threads = 1; // a network this small is faster on one thread
  OPC_ASSIGN_OR_RETURN(Session session, Session::load(bytes.view(), registry, options));
  OPC_RETURN_IF_ERROR(loadWeights(session, weights));

  OPC_ASSIGN_OR_RETURN(const HostTensor pixels, readNpy(images));
  OPC_RETURN_IF_ERROR(session.feed("image", pixels));
  OPC_RETURN_IF_ERROR(session.run());
  OPC_ASSIGN_OR_RETURN(const HostTensor logits, session.fetch("logits"));
  const int64_t classes = logits.shape().At(1);
  for (int64_t i = 0; i < logits.shape().At(0); ++i) {
    const float *row = logits.as<float>() + i * classes;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c)
      if (row[c] > row[best]) best = c;
    std::printf("%d\n", static_cast<int>(best));
  }
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: read_digits PLAN WEIGHTS IMAGES.npy\n");
    return 2;
  }
  const Status status = readDigits(argv[1], argv[2], argv[3]);
  if (!status) std::fprintf(stderr, "%s\n", status.toString().c_str());
  return status ? 0 : 5;
}
