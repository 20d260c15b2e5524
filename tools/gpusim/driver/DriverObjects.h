// What handles stand for: contexts, streams, events, modules, graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Operation.h"

#include <map>
#include <set>
#include <thread>
#include <unordered_map>

namespace opc::gpusim::driver {

/// Objects by their address: what is no handle is found out and not followed.
template <class T> class Handles {
public:
  T *make(std::unique_ptr<T> object) {
    T *p = object.get();
    objects_.emplace(p, std::move(object));
    return p;
  }
  T *find(const T *handle) const {
    const auto it = objects_.find(const_cast<T *>(handle));
    return it == objects_.end() ? nullptr : it->first;
  }
  bool destroy(T *handle) { return objects_.erase(handle) != 0; }
  template <class Predicate> void destroyIf(Predicate p) {
    std::erase_if(objects_, [&](const auto &entry) { return p(*entry.first); });
  }
  template <class Visitor> void each(Visitor visit) const {
    for (const auto &[object, owner] : objects_) visit(*object);
  }

private:
  std::unordered_map<T *, std::unique_ptr<T>> objects_;
};

struct CuGraphNode {
  Work work;
  std::vector<size_t> needs; // earlier nodes
};

struct CuGraph {
  std::vector<std::unique_ptr<CuGraphNode>> nodes;
  Context *context = nullptr;
};

struct CuGraphExec {
  uint64_t number = 0;
  Context *context = nullptr;
  std::vector<CuGraphNode> nodes;
  std::vector<uint32_t> lanes; // of the nodes: those of one lane are a chain
  OperationPtr last;           // the end of the last launch: launches of one graph follow each other
};

/// From cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  CaptureMode mode = kCaptureGlobal;
  std::thread::id thread;
  Stream *origin = nullptr;
  std::unique_ptr<CuGraph> graph;
  std::set<Stream *> streams;
  bool invalid = false, ended = false;
};

struct Stream {
  Context *context = nullptr;
  uint32_t number = 0, lane = 0;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  OperationPtr last;
  VectorClock clock;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captureNeeds; // nodes that the next one comes behind
  bool blocking() const { return !legacy && (flags & kStreamNonBlocking) == 0; }
};

struct Event {
  Context *context = nullptr;
  unsigned flags = 0;
  OperationPtr record;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captureNeeds;
};

struct Context {
  int device = 0;
  int retained = 0;
  unsigned flags = 0;
  CuResult sticky = kSuccess;
  std::set<int> peers;
  std::unique_ptr<Stream> legacy;
  std::map<std::thread::id, Stream *> ofThreads;
  VectorClock retired; // of streams that were destroyed
};

/// PTX as it was given, parsed once; loaded on each device that asks for it.
struct Image {
  std::shared_ptr<const Module> module;
  std::map<int, std::shared_ptr<LoadedImage>> loaded;
};

struct CuFunction {
  CuModule *module = nullptr;
  const KernelInfo *kernel = nullptr;
  int dynamicSharedLimit = 0; // as set; 0: what needs no setting
};

struct CuModule {
  Context *context = nullptr;
  CuLibrary *library = nullptr; // or of cuModuleLoadData
  std::shared_ptr<LoadedImage> image;
  std::map<std::string, CuFunction *> functions;
};

struct CuKernel {
  CuLibrary *library = nullptr;
  const KernelInfo *kernel = nullptr;
};

struct CuLibrary {
  Image image;
  std::map<int, CuModule *> modules; // by device
  std::map<std::string, CuKernel *> kernels;
};

} // namespace opc::gpusim::driver
