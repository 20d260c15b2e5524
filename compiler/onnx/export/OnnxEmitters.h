// The families of emitters, one file each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxEmission.h"

#include <functional>
#include <map>
#include <string>

namespace opc::onnx_export {

/// How one op of opc is written.
struct Emitter {
  Types types = Types::kOwn;
  std::function<void(Emission &)> emit;
  std::string to;   // the ONNX ops that it becomes, for the table
  std::string note; // what of the op has no form, or differs; may be empty
  /// Who imports the nodes learns more from them than from the op: integers that stand for real values, sizes that the
  /// run decides, graphs.
  bool nodesSayMore = false;
  /// Where it becomes one node, who imports that makes another op of it, with other last bits.
  bool isAnotherAlone = false;
};

class EmitterTable {
public:
  /// All that there are.
  static const EmitterTable &get();
  const Emitter *find(const std::string &op) const;
  const std::map<std::string, Emitter> &all() const { return emitters_; }
  void add(const std::string &op, Types types, std::function<void(Emission &)> emit, const std::string &to,
           const std::string &note = "");
  /// Of ops that have been added.
  void nodesSayMore(std::initializer_list<const char *> ops) {
    for (const char *op : ops) emitters_.at(op).nodesSayMore = true;
  }

  void isAnotherAlone(std::initializer_list<const char *> ops) {
    for (const char *op : ops) emitters_.at(op).isAnotherAlone = true;
  }

private:
  std::map<std::string, Emitter> emitters_;
};

/// Any elementwise op: its scalar function, node by node.
void emitExpression(Emission &e);
/// What emitExpression() cannot write of a function; empty where it can.
std::string missingFunction(const scalar::ScalarProgram &program);

void addActivations(EmitterTable *table);
void addShapes(EmitterTable *table);
void addConstants(EmitterTable *table);
void addReductions(EmitterTable *table);
void addMatrices(EmitterTable *table);
void addQuantization(EmitterTable *table);
void addConvolutions(EmitterTable *table);
void addPooling(EmitterTable *table);
void addNormalizations(EmitterTable *table);
void addLosses(EmitterTable *table);
void addIndexing(EmitterTable *table);
void addPadding(EmitterTable *table);
void addResizing(EmitterTable *table);
void addScans(EmitterTable *table);
void addRandom(EmitterTable *table);
void addUpdates(EmitterTable *table);
void addSchedules(EmitterTable *table);
void addAttention(EmitterTable *table);
void addControl(EmitterTable *table);
void addRecurrent(EmitterTable *table);
void addRecurrentGradients(EmitterTable *table);

// Functions of numbers that ONNX has no op for, to their full precision.
Wire expm1(Emission &e, const Wire &x);
Wire log1p(Emission &e, const Wire &x);
/// log(1 + e^x).
Wire softplus(Emission &e, const Wire &x);
Wire truncated(Emission &e, const Wire &x);

} // namespace opc::onnx_export
