// opc sdk: the flags that build a plugin against this opc.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "JsonOutput.h"
#include "SdkPaths.h"

namespace opc::cli {

namespace {

struct SdkCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("flags for compiling and linking a plugin of operators");
    s.examples = {"g++ -shared -fPIC $(opc sdk --cflags) my_op.cpp $(opc sdk --ldflags) -o libmyops.so",
                  "nvcc -c -Xcompiler -fPIC $(opc sdk --cflags --cuda) my_kernel.cu",
                  "g++ -shared my_op.o my_kernel.o $(opc sdk --ldflags --cuda) -o libmyops.so"};
    s.options = {{"--cflags", 0, "", "for the compiler: g++, clang++ and nvcc take them", &cflags_, true},
                 {"--ldflags", 0, "", "for the linker", &ldflags_, true},
                 {"--cuda", 0, "", "with what CUDA sources need: for nvcc, and to link what it has made", &cuda_, true},
                 {"--prefix", 0, "", "the directory that opc is installed in", &prefix_, true}};
    s.details =
        "Several at once are printed on one line. The paths follow the opc that is running, so they are right for a "
        "build tree and for an installation that was moved. With --cuda the compiler is nvcc, which makes PTX that the "
        "driver of any GPU and the simulator (--device sim) take; the library is CUDA's runtime, libcudart.so.13.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &) override {
    OPC_ASSIGN_OR_RETURN(SdkPaths paths, findSdk(runningExecutable()));
    if (invocation.flags().json) {
      invocation.terminal().out(jsonText({{"schema", 1},
                                          {"prefix", paths.prefix},
                                          {"include", paths.include},
                                          {"compat_include", paths.compat},
                                          {"library", paths.library},
                                          {"cflags", paths.compileFlags()},
                                          {"ldflags", paths.linkFlags()},
                                          {"cuda_cflags", paths.cudaCompileFlags()},
                                          {"cuda_ldflags", paths.cudaLinkFlags()}}));
      return kExitOk;
    }
    std::string text;
    auto add = [&](bool wanted, const std::string &part) {
      if (wanted) text += (text.empty() ? "" : " ") + part;
    };
    add(prefix_, paths.prefix);
    add(cflags_, cuda_ ? paths.cudaCompileFlags() : paths.compileFlags());
    add(ldflags_, cuda_ ? paths.cudaLinkFlags() : paths.linkFlags());
    if (text.empty()) return usageError("opc sdk needs --cflags, --ldflags or --prefix", "opc sdk -h");
    invocation.terminal().out(text + "\n");
    return kExitOk;
  }

private:
  bool cflags_ = false, ldflags_ = false, prefix_ = false, cuda_ = false;
};

} // namespace

std::unique_ptr<Command> makeSdkCommand() { return std::make_unique<SdkCommand>(); }

} // namespace opc::cli
