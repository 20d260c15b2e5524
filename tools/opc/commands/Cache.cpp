// opc cache: the machine code that is kept on disk.
// SPDX-License-Identifier: Apache-2.0
#include "CodeSettings.h"
#include "Commands.h"

#include "JsonOutput.h"
#include "NearestNames.h"
#include "NumberText.h"
#include "PrintableText.h"
#include "TextParts.h"

namespace opc::cli {

namespace {

struct CacheCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("the machine code of regions that is kept on disk: where it is and how much; remove it",
                           "[list|clear]", 0, 1);
    s.examples = {"opc cache", "opc cache clear", "opc cache --json"};
    s.details =
        "The settings cache.dir and cache.size say where code is kept, and how much; --no-cache does without. Code is "
        "taken only from files of this user, in a folder that is closed to everybody else.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    const std::string what = positional.empty() ? "list" : positional[0];
    if (what != "list" && what != "clear")
      return usageError("opc cache does not know '" + what + "'",
                        didYouMean(what, {"list", "clear"}, "it knows list and clear"));
    OPC_ASSIGN_OR_RETURN(const std::unique_ptr<codegen::CodeCache> cache, codeCache(invocation.config()));
    if (!cache || cache->folder().empty()) {
      if (invocation.flags().json)
        invocation.terminal().out(jsonText({{"schema", 1}, {"folder", nullptr}, {"entries", Json::array()}}));
      invocation.note("no machine code is kept: " +
                      std::string(cache ? "there is no folder for it" : "cache.size is 0"));
      return kExitOk;
    }
    return what == "clear" ? clear(invocation, *cache) : list(invocation, *cache);
  }

private:
  static int clear(Invocation &invocation, codegen::CodeCache &cache) {
    const size_t count = cache.clear();
    if (invocation.flags().json)
      invocation.terminal().out(jsonText({{"schema", 1}, {"folder", cache.folder()}, {"removed", count}}));
    invocation.note("removed " + counted(count, "file") + " from " + printableName(cache.folder()));
    return kExitOk;
  }

  static int list(Invocation &invocation, const codegen::CodeCache &cache) {
    uint64_t bytes = 0;
    Json entries = Json::array();
    for (const codegen::CodeCache::Entry &e : cache.entries()) {
      bytes += e.bytes;
      entries.push_back({{"file", e.file}, {"bytes", e.bytes}, {"used", e.used}});
    }
    const size_t count = entries.size();
    if (invocation.flags().json)
      invocation.terminal().out(jsonText({{"schema", 1},
                                          {"folder", cache.folder()},
                                          {"bytes", bytes},
                                          {"max_bytes", cache.maxBytes()},
                                          {"entries", std::move(entries)}}));
    else
      invocation.terminal().out(printableName(cache.folder()) + ": code of " + counted(count, "region") + ", " +
                                bytesText(bytes) + " of at most " + bytesText(cache.maxBytes()) + "\n");
    return kExitOk;
  }
};

} // namespace

std::unique_ptr<Command> makeCacheCommand() { return std::make_unique<CacheCommand>(); }

} // namespace opc::cli
