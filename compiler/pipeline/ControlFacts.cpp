// The graphs in the ops of a graph (if, loop) as facts, for what writes them in other formats.
// SPDX-License-Identifier: Apache-2.0
#include "ControlFacts.h"
#include "ControlOp.h"
#include "GraphFile.h"
#include "ModelSource.h"

namespace opc {
namespace {

class Collection {
public:
  Collection(const Registry &registry, const std::string &name, std::vector<Diagnostic> *findings)
      : registry_(registry), name_(name), findings_(findings) {}

  void collect(const GraphFacts &facts, int depth) {
    if (depth == kMostControlDepth) return;
    for (const GraphOp &op : facts.ops)
      for (const std::string &attribute : controlGraphs(controlKind(op.type))) {
        const auto attr = op.attrs.find(attribute);
        const std::string *text = attr == op.attrs.end() ? nullptr : attr->second.get<std::string>();
        if (!text || graphs.count(*text)) continue;
        GraphFacts inner;
        if (!read(op, *text, &inner)) return;
        collect(graphs[*text].facts = std::move(inner), depth + 1);
      }
  }

  std::map<std::string, InnerGraph> graphs;

private:
  bool read(const GraphOp &op, const std::string &text, GraphFacts *facts) {
    std::vector<Diagnostic> found;
    CompileOptions options;
    options.maxErrors = 1;
    options.train = false;
    ModelSource source;
    source.file = readGraphFile(name_, text, options.maxGraphBytes, &found);
    if (source.file) {
      source.file->keepsInterface = true;
      Pipeline pipeline(registry_, options);
      if (pipeline.import(std::move(source), "") && pipeline.run(Phase::kShape)) {
        *facts = pipeline.facts();
        for (GraphOp &inner : facts->ops) inner.range = op.range; // no line of the text is one of the file
        return true;
      }
      found = pipeline.diagnostics();
    }
    for (Diagnostic d : found) {
      if (d.severity != Severity::kError) continue;
      d.message = "op " + op.name + " (" + op.type + "): in its graph: " + d.message;
      d.range = op.range;
      findings_->push_back(std::move(d));
    }
    return false;
  }

  const Registry &registry_;
  const std::string &name_;
  std::vector<Diagnostic> *findings_;
};

} // namespace

std::map<std::string, InnerGraph> controlFacts(const GraphFacts &facts, const Registry &registry,
                                               const std::string &name, std::vector<Diagnostic> *findings) {
  Collection all(registry, name, findings);
  all.collect(facts, 0);
  return std::move(all.graphs);
}

} // namespace opc
