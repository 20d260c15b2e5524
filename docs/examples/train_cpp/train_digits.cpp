// Trains the digits perceptron from a C++ program, without the command line: graph, gradients, plan, batches,
// checkpoints, and the held-out digits at the end.
//
//   train_digits FOLDER CHECKPOINT [EPOCHS]
//
// FOLDER is docs/examples/digits. A CHECKPOINT that exists is gone on from, exactly as if the run had not been stopped.

#include "BatchLoader.h"
#include "Checkpoint.h"
#include "Pipeline.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

using namespace opc;

namespace {

constexpr int64_t kBatch = 64;
constexpr uint64_t kSeed = 7;

Result<std::string> readText(const std::string &path) {
  Result<FileBytes> bytes = FileBytes::open(path);
  if (!bytes) return bytes.status();
  return std::string(bytes->view());
}

/// A graph's plan, by the compiler.
Result<std::string> compile(const Registry &registry, const std::string &name, const std::string &graph,
                            const CompileOptions &options) {
  Pipeline pipeline(registry, options);
  if (pipeline.import(name, graph) && pipeline.run(Phase::kPlan)) return pipeline.emit(Emit::kPlan);
  const Diagnostic &first = pipeline.diagnostics().front();
  return Status(pipeline.errorClass(), first.code, first.message).withHelp(first.help);
}

/// The graph with one step of Adam behind it, for batches of kBatch.
Result<std::string> compileTraining(const Registry &registry, const std::string &graph) {
  CompileOptions options;
  options.shapes = {{"image", {kBatch, 64}}, {"label", {kBatch}}};
  options.gradient.emplace();
  options.gradient->losses = {"loss"};
  TrainingConfig training;
  training.groups.emplace_back();
  training.groups[0].updateOp = "adam_update";
  training.groups[0].learningRate = 0.002;
  options.gradient->training = training;
  return compile(registry, "mlp", graph, options);
}

/// Batches of the training images, dealt anew in each epoch.
Result<BatchLoader> openData(const std::string &folder, const Session &session) {
  std::vector<BatchLoader::Source> sources;
  for (const auto &[input, file] : {std::pair("image", "train_images.npy"), std::pair("label", "train_labels.npy")}) {
    Result<MappedTensor> data = MappedTensor::open(folder + "/" + file);
    if (!data) return data.status();
    sources.push_back({input, std::move(*data)});
  }
  return BatchLoader::create(session, std::move(sources), /*shuffle=*/true, kSeed);
}

Status train(Session &session, BatchLoader &loader, int64_t epochs, const std::string &checkpoint) {
  const int64_t perEpoch = loader.order().stepsPerEpoch();
  while (session.step() < epochs * perEpoch) {
    OPC_RETURN_IF_ERROR(loader.feed(session, session.step()));
    OPC_RETURN_IF_ERROR(session.run());
    if (session.step() % perEpoch != 0) continue;
    const int64_t epoch = session.step() / perEpoch;
    std::printf("epoch %ld: loss %.4f\n", static_cast<long>(epoch),
                static_cast<double>(*static_cast<const float *>(session.outputData("loss"))));
    OPC_RETURN_IF_ERROR(saveCheckpoint(checkpoint, session, {session.step(), epoch, kSeed, {}}));
  }
  return Status::ok();
}

/// The share of the held-out digits that the network reads rightly with the variables of `trained`.
Result<double> evaluate(const Registry &registry, const std::string &folder, const std::string &graph,
                        Session &trained) {
  Result<std::string> plan = compile(registry, "mlp", graph, {});
  if (!plan) return plan.status();
  Result<Session> session = Session::load(*plan, registry);
  if (!session) return session.status();
  for (const PortInfo &v : session->interface().variables) {
    Result<HostTensor> value = trained.variable(v.name);
    if (!value) return value.status();
    OPC_RETURN_IF_ERROR(session->setVariable(v.name, *value));
  }
  Result<HostTensor> images = readNpy(folder + "/test_images.npy"), labels = readNpy(folder + "/test_labels.npy");
  if (!images) return images.status();
  if (!labels) return labels.status();
  OPC_RETURN_IF_ERROR(session->feed("image", *images));
  OPC_RETURN_IF_ERROR(session->run());
  Result<HostTensor> logits = session->fetch("logits");
  if (!logits) return logits.status();
  const int64_t count = labels->elemCount();
  int64_t right = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float *row = logits->as<float>() + i * 10;
    int32_t best = 0;
    for (int32_t digit = 1; digit < 10; ++digit)
      if (row[digit] > row[best]) best = digit;
    right += best == labels->as<int32_t>()[i];
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

Result<double> runAll(const std::string &folder, const std::string &checkpoint, int64_t epochs) {
  Registry registry;
  OPC_RETURN_IF_ERROR(registry.addLinked());
  registry.freeze();
  Result<std::string> network = readText(folder + "/mlp.pbtxt"), loss = readText(folder + "/mlp_loss.pbtxt");
  if (!network) return network.status();
  if (!loss) return loss.status();
  Result<std::string> plan = compileTraining(registry, *network + "\n" + *loss);
  if (!plan) return plan.status();
  SessionOptions options;
  options.threads = 1; // steps this small are faster on one thread
  options.seed = kSeed;
  Result<Session> session = Session::load(*plan, registry, options);
  if (!session) return session.status();
  if (std::filesystem::exists(checkpoint)) {
    Result<TrainingState> state = loadCheckpoint(checkpoint, *session);
    if (!state) return state.status();
    std::printf("going on from step %ld of %s\n", static_cast<long>(state->step), checkpoint.c_str());
  }
  Result<BatchLoader> loader = openData(folder, *session);
  if (!loader) return loader.status();
  OPC_RETURN_IF_ERROR(train(*session, *loader, epochs, checkpoint));
  return evaluate(registry, folder, *network, *session);
}

} // namespace

int main(int argc, char **argv) {
  const long epochs = argc > 3 ? std::strtol(argv[3], nullptr, 10) : 20;
  if (argc < 3 || argc > 4 || epochs < 1) {
    std::fprintf(stderr, "usage: train_digits FOLDER CHECKPOINT [EPOCHS]\n");
    return 2;
  }
  Result<double> accuracy = runAll(argv[1], argv[2], epochs);
  if (!accuracy) {
    std::fprintf(stderr, "%s\n", accuracy.status().toString().c_str());
    return 5;
  }
  std::printf("accuracy on the held-out digits: %.1f %%\n", 100 * *accuracy);
  return 0;
}
