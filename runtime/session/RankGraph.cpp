// One rank's part of a session.
// SPDX-License-Identifier: Apache-2.0
#include "RankGraph.h"

#include "BlockCopy.h"

#include <cstring>
#include <unordered_map>

namespace opc::runtime {
namespace {

std::vector<uint32_t> match(const std::vector<JobPort> &job, const std::vector<ModelPort> &mine) {
  std::unordered_map<std::string, uint32_t> index;
  for (uint32_t i = 0; i < mine.size(); ++i) index.emplace(mine[i].name, i);
  std::vector<uint32_t> out;
  for (const JobPort &p : job) {
    auto it = index.find(p.name);
    out.push_back(it == index.end() ? kNone : it->second);
  }
  return out;
}

std::vector<int64_t> dimsOf(const Shape &shape) { return std::vector<int64_t>(shape.begin(), shape.end()); }

int64_t bytesOf(const Shape &shape, DataType type) {
  return shape.elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(type));
}

} // namespace

Result<std::unique_ptr<RankGraph>> RankGraph::load(const plan::Plan &part, const JobPlan &job, int64_t rank,
                                                   const Registry &registry, int threads, const RankLink &link,
                                                   const RankGraph *sibling,
                                                   const std::shared_ptr<NativeImages> &native) {
  OPC_ASSIGN_OR_RETURN(PlanModel model, buildPlanModel(part, registry, job, rank, native));
  OPC_ASSIGN_OR_RETURN(std::vector<CrossEdge> edges, checkDataFlow(model));
  std::unique_ptr<RankGraph> r(new RankGraph(job));
  OPC_ASSIGN_OR_RETURN(r->graph_, TaskGraph::create(std::move(model), std::move(edges), threads, link,
                                                    sibling ? &sibling->graph() : nullptr));
  const PlanModel &m = r->graph_->model();
  r->inputs_ = match(job.inputs, m.inputs);
  r->outputs_ = match(job.outputs, m.outputs);
  r->variables_ = match(job.variables, m.variables);
  return r;
}

Status RankGraph::give(uint32_t tensor, const std::optional<TensorSharding> &sharding, const void *whole,
                       int64_t step) {
  const ModelTensor &t = graph_->model().tensors[tensor];
  const auto bytes = static_cast<size_t>(t.bytes);
  if (!sharding || (sharding->holdsValue && sharding->box.size == dimsOf(sharding->logical)))
    return graph_->copyIn(tensor, whole, step);
  const bool direct = graph_->isHostMemory(tensor);
  if (!direct) piece_.resize(bytes);
  void *piece = direct ? graph_->data(tensor, step) : piece_.data();
  if (!sharding->holdsValue) {
    std::memset(piece, 0, bytes);
  } else if (bytes) {
    const size_t element = GetSizeOfDataType(t.desc.data_type());
    Box own{std::vector<int64_t>(sharding->box.size.size(), 0), sharding->box.size};
    copyBlock({const_cast<void *>(whole), dimsOf(sharding->logical), sharding->box, element},
              {piece, sharding->box.size, own, element});
  }
  return direct ? Status::ok() : graph_->copyIn(tensor, piece, step);
}

Status RankGraph::giveInput(size_t index, const void *whole) {
  const ModelPort *port = input(index);
  if (!port) return Status::ok();
  const JobPort &job = job_->inputs[index];
  // Slots turn with the steps of the graph, and a step of the session begins at a multiple of the micro-batches.
  const int64_t slots = graph_->model().registers[graph_->model().tensors[port->tensor].reg].credits;
  const int64_t bytes = bytesOf(job.desc.shape(), job.desc.data_type());
  for (int64_t slot = 0; slot < slots; ++slot)
    OPC_RETURN_IF_ERROR(give(port->tensor, port->sharding,
                             static_cast<const char *>(whole) + (job.isBatched ? slot * bytes : 0), slot));
  return Status::ok();
}

Status RankGraph::take(uint32_t tensor, const std::optional<TensorSharding> &sharding, void *whole, int64_t step) {
  const ModelTensor &t = graph_->model().tensors[tensor];
  if (sharding && !sharding->holdsValue) return Status::ok(); // zeros beside the ranks that have it
  if (!sharding || sharding->box.size == dimsOf(sharding->logical)) return graph_->copyOut(tensor, step, whole);
  if (t.bytes == 0) return Status::ok();
  OPC_ASSIGN_OR_RETURN(const void *piece, onHost(tensor, step));
  const size_t element = GetSizeOfDataType(t.desc.data_type());
  Box own{std::vector<int64_t>(sharding->box.size.size(), 0), sharding->box.size};
  copyBlock({const_cast<void *>(piece), sharding->box.size, own, element},
            {whole, dimsOf(sharding->logical), sharding->box, element});
  return Status::ok();
}

Status RankGraph::readInput(size_t index, void *whole) {
  const ModelPort *port = input(index);
  if (!port) return Status::ok();
  const JobPort &job = job_->inputs[index];
  const int64_t slots = job.isBatched ? job_->microBatches : 1; // of others each slot has the same
  const int64_t bytes = bytesOf(job.desc.shape(), job.desc.data_type());
  for (int64_t slot = 0; slot < slots; ++slot)
    OPC_RETURN_IF_ERROR(take(port->tensor, port->sharding, static_cast<char *>(whole) + slot * bytes, slot));
  return Status::ok();
}

Status RankGraph::giveVariable(size_t index, const void *whole) {
  const ModelPort *v = variable(index);
  return v ? give(v->tensor, v->sharding, whole, 0) : Status::ok();
}

Status RankGraph::giveConstant(size_t index, const void *whole) {
  const ModelConstant &c = graph_->model().constants[index];
  return give(c.tensor, c.sharding, whole, 0);
}

Result<const void *> RankGraph::onHost(uint32_t tensor, int64_t step) {
  if (tensor == kNone) return static_cast<const void *>(nullptr);
  if (graph_->isHostMemory(tensor)) return static_cast<const void *>(graph_->data(tensor, step));
  piece_.resize(static_cast<size_t>(graph_->model().tensors[tensor].bytes));
  OPC_RETURN_IF_ERROR(graph_->copyOut(tensor, step, piece_.data()));
  return static_cast<const void *>(piece_.data());
}

bool isEverywhere(const JobPort &port, const JobPlan &job) {
  return job.ranks == 1 || (isBroadcast(port.states) && job.placements[port.placement].size() == job.ranks);
}

Status RankGraph::gather(const JobPort &port, const void *piece, Communicator &comm, void *whole) {
  const Shape &shape = port.desc.shape();
  const DataType type = port.desc.data_type();
  const Placement &source = job_->placements[port.placement];
  const Placement target = source.size() == job_->ranks ? source : Placement::dense({job_->ranks});
  MeshLinks links, all;
  links.dims.resize(source.dims.size());
  all.dims.resize(target.dims.size());
  const std::vector<BoxingOp> steps =
      boxingPath(shape, type, port.states, source, broadcastStates(target.dims.size()), target, links, all);
  std::vector<char> buffers[2]; // what the last step made, and what this one makes
  for (size_t i = 0; i < steps.size(); ++i) {
    void *out = nullptr;
    if (const auto position = steps[i].target.positionOf(rank())) {
      const Shape local = localShape(shape, steps[i].step.to, steps[i].target.dims, *position);
      const bool isLast = i + 1 == steps.size();
      if (!isLast) buffers[i % 2].resize(static_cast<size_t>(bytesOf(local, type)));
      out = isLast ? whole : buffers[i % 2].data();
    }
    OPC_RETURN_IF_ERROR(runBoxing(comm, 0, steps[i], piece, out));
    piece = out;
  }
  if (steps.empty() && piece) std::memcpy(whole, piece, static_cast<size_t>(bytesOf(shape, type)));
  return Status::ok();
}

Status RankGraph::gatherOutput(size_t index, Communicator &comm, void *whole) {
  const JobPort &job = job_->outputs[index];
  const ModelPort *port = output(index);
  const int64_t count = job.isBatched ? job_->microBatches : 1;
  const int64_t bytes = bytesOf(job.desc.shape(), job.desc.data_type());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t step = graph_->steps() - count + i;
    OPC_ASSIGN_OR_RETURN(const void *piece, onHost(port ? port->tensor : kNone, step));
    OPC_RETURN_IF_ERROR(gather(job, piece, comm, static_cast<char *>(whole) + i * bytes));
  }
  return Status::ok();
}

Status RankGraph::gatherVariable(size_t index, Communicator &comm, void *whole) {
  const ModelPort *v = variable(index);
  OPC_ASSIGN_OR_RETURN(const void *piece, onHost(v ? v->tensor : kNone, 0));
  return gather(job_->variables[index], piece, comm, whole);
}

} // namespace opc::runtime
