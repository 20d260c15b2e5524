// opc.h: sessions. The ports' shapes as C sees them, tensors that were taken over, and calls of the Session beneath.
// SPDX-License-Identifier: Apache-2.0
#include "CapiCalls.h"
#include "DlpackTensors.h"
#include "NearestNames.h"
#include "TextParts.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

using namespace opc;
using capi::badArgument;
using capi::given;
using capi::guarded;

namespace {

/// A tensor of the caller's that the session reads in place, or has copied and keeps for its owner's peace.
using OwnedInput = std::unique_ptr<opc_dl_managed_tensor, void (*)(opc_dl_managed_tensor *)>;

void release(opc_dl_managed_tensor *t) {
  if (t && t->deleter) t->deleter(t);
}

struct Ports {
  std::vector<const std::string *> names;
  std::vector<user_op::TensorDesc> descs;
  std::vector<std::vector<int64_t>> shapes, smallest; // what a plan leaves open lies between them

  template <class List> explicit Ports(const List &list) {
    for (const auto &p : list) {
      names.push_back(&p.name);
      descs.push_back(p.desc);
      shapes.push_back(p.desc.shape().dim_vec());
      smallest.push_back(shapes.back());
      if constexpr (requires { p.smallest; })
        if (!p.sizes.empty()) smallest.back() = p.smallest.dim_vec();
    }
  }
  const user_op::TensorDesc *find(const std::string &name) const {
    for (size_t i = 0; i < names.size(); ++i)
      if (*names[i] == name) return &descs[i];
    return nullptr;
  }
};

} // namespace

struct opc_session {
  explicit opc_session(Session loaded)
      : session(std::move(loaded)), inputs(session.interface().inputs), outputs(session.interface().outputs),
        variables(session.interface().variables) {}

  const Ports *ports(opc_port_kind kind) const {
    return kind == OPC_INPUT ? &inputs : kind == OPC_OUTPUT ? &outputs : kind == OPC_VARIABLE ? &variables : nullptr;
  }

  // Before the session: it reads them until it is gone.
  std::map<std::string, OwnedInput> owned;
  Session session;
  Ports inputs, outputs, variables;
  std::set<std::string> given; // variables that were set or loaded
};

namespace {

Status noSuchKind(opc_port_kind kind) {
  return badArgument("there is no kind of port " + std::to_string(kind), "use OPC_INPUT, OPC_OUTPUT or OPC_VARIABLE");
}

/// The desc of a named port, or the session's own error for a name that it does not have.
Status wanted(const Ports &ports, const char *name, const char *what, const user_op::TensorDesc **desc) {
  *desc = ports.find(name);
  if (*desc) return Status::ok();
  std::vector<std::string> names;
  for (const std::string *n : ports.names) names.push_back(*n);
  return Status(StatusCode::kUsage, "OPC0611", std::string("the graph has no ") + what + " '" + name + "'")
      .withHelp(didYouMean(name, names, "opc_session_port lists them", "'"));
}

Status checkInput(opc_session *session, const char *input, const opc_dl_tensor *tensor) {
  OPC_RETURN_IF_ERROR(given(session, "session"));
  OPC_RETURN_IF_ERROR(given(input, "input"));
  OPC_RETURN_IF_ERROR(given(tensor, "tensor"));
  const user_op::TensorDesc *desc = nullptr;
  OPC_RETURN_IF_ERROR(wanted(session->inputs, input, "input", &desc));
  const std::string what = std::string("input '") + input + "'";
  if (session->session.interface().sizes.empty()) return capi::checkDlpack(*tensor, *desc, what);
  OPC_RETURN_IF_ERROR(capi::checkRank(*tensor, what));
  const Shape shape(DimVector(tensor->shape, tensor->shape + tensor->ndim));
  const DimVector &dims = shape.dim_vec(), &most = desc->shape().dim_vec();
  const bool isWithin = dims.size() == most.size() && std::equal(dims.begin(), dims.end(), most.begin(),
                                                                 [](int64_t d, int64_t m) { return d >= 0 && d <= m; });
  // Everything but the sizes first: what is refused changes nothing.
  if (isWithin) OPC_RETURN_IF_ERROR(capi::checkDlpack(*tensor, user_op::TensorDesc(shape, desc->data_type()), what));
  return session->session.setInputShape(input, shape);
}

Status copyInput(opc_session *session, const char *input, const opc_dl_tensor &tensor) {
  OPC_ASSIGN_OR_RETURN(void *const to, session->session.inputMemory(input));
  capi::copyFromDlpack(tensor, to);
  session->owned.erase(input);
  return Status::ok();
}

Status setVariable(opc_session *session, const char *variable, const opc_dl_tensor &tensor) {
  const user_op::TensorDesc *desc = nullptr;
  OPC_RETURN_IF_ERROR(wanted(session->variables, variable, "variable", &desc));
  OPC_RETURN_IF_ERROR(capi::checkDlpack(tensor, *desc, std::string("variable '") + variable + "'"));
  OPC_ASSIGN_OR_RETURN(HostTensor value, HostTensor::createUninitialized(desc->data_type(), desc->shape()));
  capi::copyFromDlpack(tensor, value.data());
  OPC_RETURN_IF_ERROR(session->session.setVariable(variable, value));
  session->given.insert(variable);
  return Status::ok();
}

/// OPC0717 for variables that have got no value: a program that ran on what their initializers draw would not notice.
Status checkLoaded(const opc_session &session, const TensorArchive &archive, const char *path, size_t found,
                   bool allowsPart) {
  std::vector<std::string> keys, lacking;
  for (const TensorEntry &e : archive.entries()) keys.push_back(e.key);
  for (const std::string *name : session.variables.names)
    if (!archive.contains(*name) && !session.given.count(*name)) lacking.push_back(*name);
  if (found ? lacking.empty() || allowsPart : session.variables.names.empty()) return Status::ok();
  if (lacking.empty()) // all have got values before
    for (const std::string *name : session.variables.names) lacking.push_back(*name);
  const std::string shown =
      "'" +
      joined(std::vector<std::string>(lacking.begin(), lacking.begin() + std::min<size_t>(lacking.size(), 8)), "', '") +
      "'" + (lacking.size() > 8 ? concat(" and ", lacking.size() - 8, " more") : "");
  if (!found)
    return Status(StatusCode::kUsage, "OPC0717",
                  concat("none of the ", counted(keys.size(), "tensor"), " of ", path,
                         " is called like a variable of the graph: ", shown))
        .withHelp(didYouMeanAmong(lacking[0], keys, "a key is the name of a variable", "the file has "));
  return Status(StatusCode::kUsage, "OPC0717",
                concat(path, " lacks ", lacking.size(), " of the graph's ",
                       counted(session.variables.names.size(), "variable"), ": ", shown))
      .withHelp(didYouMean(lacking[0], keys,
                           "set the others first with opc_session_set_variable, or ask for the count of those that "
                           "the file has",
                           "'"));
}

Status loadVariables(opc_session *session, const char *path, size_t *count) {
  OPC_ASSIGN_OR_RETURN(const std::unique_ptr<TensorArchive> archive, openTensorArchive(path));
  size_t found = 0;
  const auto &variables = session->session.interface().variables;
  for (const PortInfo &v : variables) found += archive->contains(v.name);
  OPC_RETURN_IF_ERROR(session->session.checkNumbers(*archive));
  OPC_RETURN_IF_ERROR(checkLoaded(*session, *archive, path, found, count != nullptr));
  // All are looked at first: a file that does not fit leaves every variable as it was.
  for (const bool sets : {false, true})
    for (const PortInfo &v : variables) {
      if (!archive->contains(v.name)) continue;
      TensorReadOptions options;
      options.voidType = v.desc.data_type();
      if (!sets) {
        OPC_ASSIGN_OR_RETURN(const user_op::TensorDesc desc, archive->describe(v.name, options));
        OPC_RETURN_IF_ERROR(checkTensor(desc, v.desc, "variable '" + v.name + "' of " + path));
        continue;
      }
      OPC_ASSIGN_OR_RETURN(const HostTensor value, archive->read(v.name, options));
      OPC_RETURN_IF_ERROR(session->session.setVariable(v.name, value));
      session->given.insert(v.name);
    }
  if (count) *count = found;
  return Status::ok();
}

Status giveTo(Result<HostTensor> value, opc_dl_managed_tensor **tensor) {
  if (!value) return value.status();
  *tensor = capi::giveAway(std::move(*value));
  return Status::ok();
}

/// A tensor that a method of the session gets by its name.
template <class Get>
opc_status give(opc_session *session, const char *name, const char *what, Get get, opc_dl_managed_tensor **tensor) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(tensor, "tensor"));
    *tensor = nullptr;
    OPC_RETURN_IF_ERROR(given(session, "session"));
    OPC_RETURN_IF_ERROR(given(name, what));
    return giveTo((session->session.*get)(name), tensor);
  });
}

} // namespace

opc_status opc_session_create(opc_context *context, const opc_plan *plan, const opc_session_options *options,
                              opc_session **session) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(session, "session"));
    *session = nullptr;
    OPC_RETURN_IF_ERROR(given(context, "context"));
    OPC_RETURN_IF_ERROR(given(plan, "plan"));
    SessionOptions chosen;
    if (options) {
      if (options->size != sizeof *options || options->threads < 0 || options->threads > kMostThreads ||
          options->reserved != 0)
        return badArgument("opc_session_options has size " + std::to_string(options->size) + " (expected " +
                               std::to_string(sizeof *options) + "), threads " + std::to_string(options->threads) +
                               " and reserved " + std::to_string(options->reserved),
                           "clear it with memset, set size to sizeof(opc_session_options), threads to a number up to " +
                               std::to_string(kMostThreads) + ", or 0 for one for each core");
      chosen.threads = options->threads;
      chosen.maxMemory = options->max_memory;
      chosen.seed = options->seed;
    }
    chosen.allowNative = context->allowsNative;
    context->freeze();
    OPC_ASSIGN_OR_RETURN(Session loaded, Session::load(plan->view(), context->registry, chosen));
    *session = new opc_session(std::move(loaded));
    for (const PortInfo &v : (*session)->session.interface().variables)
      if (v.hasValue) (*session)->given.insert(v.name);
    return Status::ok();
  });
}

void opc_session_destroy(opc_session *session) { delete session; }

opc_status opc_session_port_count(const opc_session *session, opc_port_kind kind, size_t *count) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(session, "session"));
    OPC_RETURN_IF_ERROR(given(count, "count"));
    const Ports *ports = session->ports(kind);
    if (!ports) return noSuchKind(kind);
    *count = ports->names.size();
    return Status::ok();
  });
}

static opc_status portOf(const opc_session *session, opc_port_kind kind, size_t index, bool isSmallest,
                         opc_port *port) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(session, "session"));
    OPC_RETURN_IF_ERROR(given(port, "port"));
    const Ports *ports = session->ports(kind);
    if (!ports) return noSuchKind(kind);
    if (index >= ports->names.size())
      return badArgument("port " + std::to_string(index) + " of " + std::to_string(ports->names.size()),
                         "opc_session_port_count says how many there are");
    const std::vector<int64_t> &shape = (isSmallest ? ports->smallest : ports->shapes)[index];
    *port = {ports->names[index]->c_str(), shape.data(), static_cast<int32_t>(shape.size()),
             capi::dlpackType(ports->descs[index].data_type())};
    return Status::ok();
  });
}

opc_status opc_session_port(const opc_session *session, opc_port_kind kind, size_t index, opc_port *port) {
  return portOf(session, kind, index, false, port);
}

opc_status opc_session_port_smallest(const opc_session *session, opc_port_kind kind, size_t index, opc_port *port) {
  return portOf(session, kind, index, true, port);
}

opc_status opc_session_feed(opc_session *session, const char *input, const opc_dl_tensor *tensor) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(checkInput(session, input, tensor));
    return copyInput(session, input, *tensor);
  });
}

opc_status opc_session_feed_owned(opc_session *session, const char *input, opc_dl_managed_tensor *tensor) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(checkInput(session, input, tensor ? &tensor->dl_tensor : nullptr));
    const opc_dl_tensor &t = tensor->dl_tensor;
    const auto place =
        session->owned.try_emplace(input, nullptr, release).first; // before anything is taken: it may throw
    const bool isOwnAlready = place->second.get() == tensor;       // fed in a loop: it is let go of once
    if (capi::isReadable(t) && session->session.lendInput(input, capi::dlpackData(t))) {
      if (!isOwnAlready) place->second.reset(tensor);
      return Status::ok();
    }
    OPC_RETURN_IF_ERROR(copyInput(session, input, t));
    if (!isOwnAlready) release(tensor);
    return Status::ok();
  });
}

opc_status opc_session_set_variable(opc_session *session, const char *variable, const opc_dl_tensor *tensor) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(session, "session"));
    OPC_RETURN_IF_ERROR(given(variable, "variable"));
    OPC_RETURN_IF_ERROR(given(tensor, "tensor"));
    return setVariable(session, variable, *tensor);
  });
}

opc_status opc_session_load_variables(opc_session *session, const char *path, size_t *count) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(session, "session"));
    OPC_RETURN_IF_ERROR(given(path, "path"));
    return loadVariables(session, path, count);
  });
}

opc_status opc_session_run(opc_session *session, int64_t steps) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(session, "session"));
    if (steps < 0) return badArgument("a session cannot run " + std::to_string(steps) + " steps", "run 0 or more");
    return session->session.run(steps);
  });
}

opc_status opc_session_fetch(opc_session *session, const char *output, opc_dl_managed_tensor **tensor) {
  return give(session, output, "output", &opc::Session::fetch, tensor);
}

opc_status opc_session_variable(opc_session *session, const char *variable, opc_dl_managed_tensor **tensor) {
  return give(session, variable, "variable", &opc::Session::variable, tensor);
}
