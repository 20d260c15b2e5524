// Proofs, written and read line by line, so that it is known which op has ended the process.
// SPDX-License-Identifier: Apache-2.0
#include "VerifyProofs.h"

#include "JsonOutput.h"
#include "KernelTrials.h"
#include "ProcessOutput.h"
#include "TextParts.h"

#include <algorithm>
#include <optional>

namespace opc::cli {

namespace {

Json purityJson(const PurityReport &purity) {
  Json findings = Json::array();
  for (const PurityFinding &f : purity.findings)
    findings.push_back({{"op", f.op}, {"case", f.sample}, {"type", f.type}, {"when", f.when}, {"detail", f.detail}});
  return {{"ops", purity.ops}, {"samples", purity.samples}, {"findings", std::move(findings)}};
}

PurityReport readPurity(const Json &json) {
  PurityReport purity;
  purity.ops = json.value("ops", size_t{0}), purity.samples = json.value("samples", size_t{0});
  for (const Json &f : json.value("findings", Json::array()))
    purity.findings.push_back(
        {f.value("op", ""), f.value("case", ""), f.value("type", ""), f.value("when", ""), f.value("detail", "")});
  return purity;
}

Json signatureJson(const SignatureCheck &c) {
  return {{"op", c.op},
          {"signature", c.signature},
          {"verdict", static_cast<int>(c.verdict)},
          {"trials", c.trials},
          {"detail", c.detail}};
}

SignatureCheck readSignature(const Json &c) {
  return {c.value("op", ""), c.value("signature", ""), static_cast<SignatureVerdict>(c.value("verdict", 0)),
          c.value("trials", int64_t{0}), c.value("detail", "")};
}

/// What one process has told.
struct Told {
  Proofs proofs;
  std::optional<KernelFinding> begun; // last
  bool isWhole = false;
};

/// Other lines are what kernels print.
Told read(const std::string &output) {
  Told told;
  for (const std::string &line : splitAt(output, '\n')) {
    const Json document = Json::parse(line, nullptr, false);
    if (!document.is_object()) continue;
    if (document.contains("begins")) told.begun = readKernelFinding(document["begins"]);
    if (document.contains("purity")) told.proofs.purity = readPurity(document["purity"]);
    if (document.contains("signatures"))
      for (const Json &c : document["signatures"]) told.proofs.signatures.push_back(readSignature(c));
    told.isWhole |= document.contains("proven");
  }
  return told;
}

} // namespace

void writeProofs(Terminal &terminal, const Registry &registry, const std::vector<const user_op::OpDef *> &ops,
                 PurityOptions purity, SignatureCheckOptions signatures) {
  purity.begins = [&](const std::string &op, const std::string &sample, const std::string &type) {
    writeBeginning(terminal, op, sample, type);
  };
  signatures.begins = [&](const std::string &op, const std::string &sample) {
    writeBeginning(terminal, op, "a part of " + sample, "");
  };
  writeJsonLine(terminal, {{"purity", purityJson(checkPurity(registry, ops, purity))}});
  for (const user_op::OpDef *op : ops) {
    Json checks = Json::array();
    for (const SignatureCheck &c : checkSignatures(registry, *op, signatures)) checks.push_back(signatureJson(c));
    writeJsonLine(terminal, {{"signatures", std::move(checks)}});
  }
  writeJsonLine(terminal, {{"proven", true}});
}

Result<Proofs> runProofs(const std::vector<std::string> &arguments, std::vector<const user_op::OpDef *> ops,
                         double seconds, KernelReport *kernels) {
  while (!ops.empty()) {
    std::vector<std::string> words = arguments;
    for (const user_op::OpDef *op : ops) words.push_back(op->name);
    OPC_ASSIGN_OR_RETURN(const ProcessEnd end,
                         runOwnProgram(words, watchBeginnings(seconds + PurityOptions().seconds)));
    Told told = read(end.output);
    if (told.isWhole) return std::move(told.proofs);
    const auto faulty = std::find_if(
        ops.begin(), ops.end(), [&](const user_op::OpDef *op) { return told.begun && op->name == told.begun->op; });
    if (faulty == ops.end()) {
      OPC_RETURN_IF_ERROR(failureOf(end));
      return Status(StatusCode::kExecution, "OPC0604",
                    "a second process of opc has told nothing of op '" + ops[0]->name + "'");
    }
    kernels->findings.push_back(faultOfEnd(*std::move(told.begun), end, seconds));
    ops.erase(faulty);
  }
  return Proofs();
}

} // namespace opc::cli
