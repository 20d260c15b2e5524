// opc completion: scripts for bash, zsh and fish. They ask `opc __complete`, which knows the commands and reads the
// graph.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

namespace opc::cli {

namespace {

const char kBash[] = R"script(# bash completion of opc: source <(opc completion bash)
_opc() {
  local line=${COMP_LINE:0:COMP_POINT} cur=${COMP_WORDS[COMP_CWORD]} word strip candidate end files= unsafe
  word=${line##*[[:space:]]}
  # bash splits words at '=' and ':' and replaces the last part only; opc completes the whole word.
  if [[ $cur == [=:]* ]]; then strip=$word; else strip=${word%"$cur"}; fi
  strip=${strip%@} # an '@' begins a part, and stays with it
  COMPREPLY=()
  # A name in a graph may be anything, and what is put on the line is run with it: what the shell would read is quoted.
  unsafe='[^A-Za-z0-9_./:=@,%+-]'
  while IFS= read -r candidate; do
    if [[ $candidate == :file ]]; then files=1; continue; fi
    candidate=${candidate%%$'\t'*}
    candidate=${candidate#"$strip"}
    end=${candidate: -1}
    case $cur in
      \'*) [[ $candidate == *\'* ]] && continue ;;
      \"*)
        [[ $candidate == *!* ]] && continue
        candidate=${candidate//\\/\\\\} candidate=${candidate//\"/\\\"}
        candidate=${candidate//\$/\\\$} candidate=${candidate//\`/\\\`} ;;
      *) [[ $candidate =~ $unsafe ]] && printf -v candidate %q "$candidate" ;;
    esac
    COMPREPLY+=("$candidate")
  done < <(opc __complete --line "$line" 2>/dev/null)
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(compgen -f -- "${cur#[=:]}")
    end=${COMPREPLY[0]: -1}
  fi
  [[ ${#COMPREPLY[@]} -eq 1 && $end == [=:/,] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _opc opc
)script";

const char kZsh[] = R"script(#compdef opc
# zsh completion of opc: source <(opc completion zsh), or a file _opc in a directory of $fpath
_opc() {
  local line files=
  local -a plain plaintext open opentext
  for line in "${(@f)$(opc __complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -z $line ]] && continue
    if [[ $line == :file ]]; then files=1; continue; fi
    local candidate=${line%%$'\t'*} text=${line#*$'\t'}
    [[ $text == $line ]] && text=
    if [[ $candidate == *[=:/,] ]]; then
      open+=("$candidate"); opentext+=("$candidate${text:+  -- $text}")
    else
      plain+=("$candidate"); plaintext+=("$candidate${text:+  -- $text}")
    fi
  done
  (( ${#plain} )) && compadd -l -d plaintext -- "${plain[@]}"
  (( ${#open} )) && compadd -S '' -l -d opentext -- "${open[@]}"
  [[ -n $files ]] && _files
}
compdef _opc opc
)script";

const char kFish[] = R"script(# fish completion of opc: opc completion fish | source
function __opc_complete
    set -l words (commandline -opc)
    for line in (opc __complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
        if test "$line" = ":file"
            __fish_complete_path (commandline -ct)
        else
            printf '%s\n' $line
        end
    end
end
complete -c opc -f -a '(__opc_complete)'
)script";

struct CompletionCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("a script that completes opc's command lines: commands, options, and the names in the graph",
                           "bash|zsh|fish", 1, 1);
    s.settings = SettingsUse::kNone;
    s.examples = {"source <(opc completion bash)", "opc completion zsh > ~/.zfunc/_opc",
                  "opc completion fish > ~/.config/fish/completions/opc.fish"};
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    const std::string &shell = positional[0];
    const char *script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : shell == "fish" ? kFish : nullptr;
    if (!script) return usageError("opc completes in bash, zsh and fish, not in '" + shell + "'");
    invocation.terminal().out(script);
    return kExitOk;
  }
};

} // namespace

std::unique_ptr<Command> makeCompletionCommand() { return std::make_unique<CompletionCommand>(); }

} // namespace opc::cli
