// opc.h: versions, contexts and plans.
// SPDX-License-Identifier: Apache-2.0
#include "CapiCalls.h"
#include "opc/Version.h"

#include <cstdint>

using namespace opc;
using capi::badArgument;
using capi::given;
using capi::guarded;

uint32_t opc_api_version(void) { return OPC_API_VERSION; }
const char *opc_version(void) { return OPC_VERSION_STRING; }

opc_status opc_context_create(uint32_t api_version, opc_context **context) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(context, "context"));
    *context = nullptr;
    const uint32_t major = api_version >> 16, minor = api_version & 0xffff;
    if (major != OPC_API_VERSION_MAJOR || minor > OPC_API_VERSION_MINOR)
      return Status(StatusCode::kUnsupported, "OPC0908",
                    "the program was compiled for version " + std::to_string(major) + "." + std::to_string(minor) +
                        " of opc.h, and this library, opc " OPC_VERSION_STRING ", offers " +
                        std::to_string(OPC_API_VERSION_MAJOR) + "." + std::to_string(OPC_API_VERSION_MINOR))
          .withHelp("install the libopc that belongs to the header, or compile the program again");
    auto made = std::make_unique<opc_context>();
    OPC_RETURN_IF_ERROR(made->registry.addLinked());
    *context = made.release();
    return Status::ok();
  });
}

opc_status opc_context_load_plugin(opc_context *context, const char *path) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(context, "context"));
    OPC_RETURN_IF_ERROR(given(path, "path"));
    if (context->isFrozen)
      return badArgument(std::string("plugin ") + path + " comes too late: the context has been used",
                         "load plugins before the first plan is compiled and the first session is made");
    Result<PluginInfo> info = context->registry.loadPlugin(path);
    return info ? Status::ok() : info.status();
  });
}

opc_status opc_context_allow_native(opc_context *context, int32_t allowed) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(context, "context"));
    context->allowsNative = allowed != 0;
    return Status::ok();
  });
}

void opc_context_destroy(opc_context *context) { delete context; }

opc_status opc_plan_load_file(opc_context *context, const char *path, opc_plan **plan) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(plan, "plan"));
    *plan = nullptr;
    OPC_RETURN_IF_ERROR(given(context, "context"));
    OPC_RETURN_IF_ERROR(given(path, "path"));
    OPC_ASSIGN_OR_RETURN(FileBytes file, FileBytes::open(path));
    auto made = std::make_unique<opc_plan>();
    made->file = std::move(file);
    *plan = made.release();
    return Status::ok();
  });
}

opc_status opc_plan_load(opc_context *context, const void *bytes, size_t size, opc_plan **plan) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(plan, "plan"));
    *plan = nullptr;
    OPC_RETURN_IF_ERROR(given(context, "context"));
    OPC_RETURN_IF_ERROR(given(bytes, "bytes"));
    if (size > static_cast<size_t>(PTRDIFF_MAX)) // no object is so large: a negative number, most likely
      return badArgument("argument 'size' is " + std::to_string(size), "give the number of the bytes");
    auto made = std::make_unique<opc_plan>();
    made->bytes.assign(static_cast<const char *>(bytes), size);
    *plan = made.release();
    return Status::ok();
  });
}

opc_status opc_plan_compile_file(opc_context *context, const char *path, opc_plan **plan) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(plan, "plan"));
    *plan = nullptr;
    OPC_RETURN_IF_ERROR(given(context, "context"));
    OPC_RETURN_IF_ERROR(given(path, "path"));
    context->freeze();
    OPC_ASSIGN_OR_RETURN(std::string bytes, capi::compileGraphFile(context->registry, path));
    auto made = std::make_unique<opc_plan>();
    made->bytes = std::move(bytes);
    *plan = made.release();
    return Status::ok();
  });
}

opc_status opc_plan_bytes(const opc_plan *plan, const void **bytes, size_t *size) {
  return guarded([&]() -> Status {
    OPC_RETURN_IF_ERROR(given(plan, "plan"));
    OPC_RETURN_IF_ERROR(given(bytes, "bytes"));
    OPC_RETURN_IF_ERROR(given(size, "size"));
    *bytes = plan->view().data();
    *size = plan->view().size();
    return Status::ok();
  });
}

void opc_plan_destroy(opc_plan *plan) { delete plan; }
