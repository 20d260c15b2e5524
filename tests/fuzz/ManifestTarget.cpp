// Manifests of operators in Python, each with a graph that uses them: read, and where the manifest is valid the graph
// is inferred, differentiated twice, compiled and loaded.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include "OpManifest.h"
#include "Pipeline.h"
#include "PluginOpeners.h"
#include "Session.h"

namespace opc::fuzz {

namespace {

constexpr const char *kTarget = "op_manifest", *kPlugin = "fuzz:manifest";
constexpr std::string_view kBetween = "\n====\n"; // the manifest, this, the graph

std::string manifestText;

/// Every operator that is linked, and those of the manifest.
Result<Registry> registryWithManifest() {
  setPluginOpener({"fuzzed manifest", [](const std::string &path) { return path == kPlugin; },
                   [](const std::string &path) -> Result<LoadedPlugin> {
                     LoadedPlugin plugin;
                     plugin.info.path = path;
                     plugin.info.apiVersion = OPC_SDK_API_VERSION;
                     OPC_ASSIGN_OR_RETURN(plugin.registrations, python::manifestOps(manifestText, path));
                     return plugin;
                   }});
  Registry registry;
  OPC_RETURN_IF_ERROR(registry.addLinked());
  OPC_RETURN_IF_ERROR(registry.loadPlugin(kPlugin).status());
  registry.freeze();
  return registry;
}

void compileWith(const Registry &registry, const std::string &graph, int order) {
  CompileOptions options;
  options.maxGraphBytes = 1 << 20;
  if (order > 0) {
    options.gradient.emplace();
    options.gradient->losses = {"y"};
    options.gradient->wrt = {"x"};
    options.gradient->order = order;
  }
  Pipeline pipeline(registry, options);
  if (!pipeline.import("fuzz", graph) || !pipeline.run(Phase::kPlan)) {
    if (pipeline.errorCount() == 0) violated(kTarget, "refused without an error");
    for (const Diagnostic &d : pipeline.diagnostics())
      if (d.severity == Severity::kError && (d.code.empty() || d.message.empty()))
        violated(kTarget, "a diagnostic without a code or a message: " + d.code + d.message);
    if (pipeline.errorClass() == StatusCode::kInternal)
      violated(kTarget, "an internal error: " + pipeline.diagnostics().front().message);
    return;
  }
  SessionOptions sessionOptions;
  sessionOptions.threads = 1;
  sessionOptions.maxMemory = 4 << 20;
  // Nothing here runs Python: a kernel that is written in it is refused.
  if (Result<Session> session = Session::load(pipeline.emit(Emit::kPlan), registry, sessionOptions); !session)
    expectProperError(kTarget, session.status());
}

} // namespace

void fuzzOpManifest(std::string_view bytes) {
  const size_t at = bytes.find(kBetween);
  manifestText = bytes.substr(0, at);
  const auto ops = python::manifestOps(manifestText, "fuzz.ops.pbtxt");
  if (!ops) return expectProperError(kTarget, ops.status());
  if (at == std::string_view::npos) return;
  const Result<Registry> registry = registryWithManifest();
  if (!registry) return expectProperError(kTarget, registry.status());
  const std::string graph(bytes.substr(at + kBetween.size()));
  for (int order : {0, 1, 2}) compileWith(*registry, graph, order);
}

} // namespace opc::fuzz
