# Sizes: no function over 80 lines outside tables, no class over 300, files of 200 lines by the median and 800 at most.
# What may be larger is in sizes.txt, each with its reason; an entry that is not needed any more fails, too.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import statistics
import sys

SOURCE = os.environ["OPC_SOURCE_DIR"]
FUNCTION, CLASS, FILE, MEDIAN = 80, 300, 800, 200

# In one pass, so that a quote in a comment and a slash in a string are what they are.
HIDDEN = re.compile(
    r'R"(?P<mark>[^(]{0,16})\(.*?\)(?P=mark)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
    re.S | re.M,
)


def bare(text):
    """The text without comments, literals and preprocessor lines; every line stays where it was."""
    return HIDDEN.sub(lambda m: "\n" * m.group(0).count("\n") + ("0" if m.group(0)[0] in "\"'R" else ""), text)


def without_templates(head):
    """A declaration without its leading template<...> and attributes."""
    while True:
        head = head.strip()
        if head.startswith("[["):
            head = head[head.index("]]") + 2 :]
        elif re.match(r"template\s*<", head):
            depth = within = 0
            for i, c in enumerate(head):
                within += (c == "(") - (c == ")")
                depth += within == 0 and (c == "<") - (c == ">" and head[i - 1] != "-")
                if c == ">" and depth == 0 and within == 0:
                    head = head[i + 1 :]
                    break
            else:
                return head
        else:
            return re.sub(r"^(public|private|protected)\s*:\s*", "", head)


def top_level(head):
    """What is outside parentheses."""
    out, depth = [], 0
    for c in head:
        depth -= c == ")"
        if depth == 0:
            out.append(c)
        depth += c == "("
    return "".join(out)


def kind(head):
    """namespace, class, function, member (an initializer within a constructor's list) or other, and the name."""
    head = without_templates(head)
    if re.match(r"(inline\s+)?namespace\b|extern\b\s*0", head):
        return "namespace", ""
    if re.match(r"(typedef\s+)?enum\b", head):
        return "other", ""
    outside = top_level(re.sub(r"operator\s*[^\s\w(]+", "operator_", head))
    if re.match(r"(typedef\s+)?(class|struct|union)\b", head) and ")" not in outside.split(":")[0]:
        words = re.findall(r"\w+", re.sub(r"\[\[.*?\]\]|<.*", "", re.split(r"(?<!:):(?!:)", head)[0]))
        return "class", next((w for w in reversed(words) if w != "final"), "")
    if "(" not in outside:
        return "other", ""
    if re.search(r"(?<![=!<>])=(?!=)", outside):
        return "other", ""
    after = outside[outside.index(")") + 1 :] if ")" in outside else ""
    if re.search(r"(?<!:):(?!:)", after) and re.search(r"[\w>]\s*$", after) and not re.search(r"\)\s*$", after):
        return "member", ""
    name = re.search(r"(operator|[~\w]+)\W*\(", head)
    return "function", name.group(1) if name else head[:40]


def definitions(text):
    """(kind, name, first line, lines) of every function and class that is not inside a function."""
    text = bare(text)
    found, stack, start, line = [], [], 0, 1
    lines = [0]
    for m in re.finditer("\n", text):
        lines.append(m.end())

    def line_of(at):
        lo, hi = 0, len(lines)
        while hi - lo > 1:
            mid = (lo + hi) // 2
            lo, hi = (mid, hi) if lines[mid] <= at else (lo, mid)
        return lo + 1

    for m in re.finditer(r"[{};]", text):
        c, at = m.group(0), m.start()
        inside = bool(stack) and stack[-1][0] in ("function", "other", "member")
        if c == "{":
            what, name = ("other", "") if inside else kind(text[start:at])
            first = start + re.match(r"\s*((public|private|protected)\s*:\s*)*", text[start:at]).end()
            stack.append((what, name, first, start))
            if not inside and what not in ("other", "member"):
                start = at + 1
        elif c == "}":
            if not stack:
                continue
            what, name, first, before = stack.pop()
            if what in ("function", "class"):
                found.append((what, name, line_of(first), line_of(at) - line_of(first) + 1))
            if not (stack and stack[-1][0] in ("function", "other", "member")):
                start = before if what == "member" else at + 1
        elif not inside:
            start = at + 1
    return found


def sources():
    found = []
    for folder in ("compiler", "docs", "kernels", "proto", "runtime", "tests", "tools"):
        for d, _, names in os.walk(os.path.join(SOURCE, folder)):
            found += [os.path.relpath(os.path.join(d, n), SOURCE) for n in names if n.endswith((".cpp", ".h"))]
    return sorted(found)


def exceptions(text):
    """{"path name": reason}"""
    known = {}
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            what, _, reason = line.partition("|")
            if not reason.strip():
                raise ValueError(f"sizes.txt gives no reason: {line}")
            known[" ".join(what.split())] = reason.strip()
    return known


def large(path, text):
    """The definitions of a file that are too large: {"path name": what it is}."""
    found = {}
    if text.count("\n") > FILE:
        found[f"{path} file"] = f"{path}: {text.count(chr(10))} lines, at most {FILE}"
    for what, name, first, count in definitions(text):
        limit = FUNCTION if what == "function" else CLASS
        if count > limit:
            found[f"{path} {name}"] = f"{path}:{first}: {what} {name} has {count} lines, at most {limit}"
    return found


SAMPLE = """#include <a>
// { a comment
template <class T, class = std::enable_if_t<(sizeof(T) > 1)>> class [[nodiscard]] Wide final : public Base<T> {
public:
  explicit Wide(int a) : Base<T>{a}, b_(a), c_{"}"} {
    if (a) { b_ = '{'; }
  }
  bool operator==(const Wide &o) const { return true; }
  T f() const noexcept
  {
    auto g = [] { return R"x( } )x"; };
    return g();
  }

private:
  int b_ = 0, c_{};
};
const int kTable[] = {
    1,
    2,
};
static const auto made = [] {
  return 1;
}();
namespace n {
TEST_CASE("a } b", "[x]") {
  CHECK(1);
}
} // namespace n
"""
EXPECTED = [("function", "Wide", 5, 3), ("function", "operator", 8, 1), ("function", "f", 9, 5), ("class", "Wide", 3, 15), ("function", "TEST_CASE", 26, 3)]


def check_matcher():
    got = definitions(SAMPLE)
    if got != EXPECTED:
        return [f"the brace matcher finds {got} in its sample, expected {EXPECTED}"]
    long_function = "int f() {\n" + "  g();\n" * 79 + "}\n"
    if not large("a.cpp", long_function) or large("a.cpp", long_function.replace("  g();\n", "", 1)):
        return ["a function of 81 lines must be found, one of 80 must not"]
    return []


def main():
    failures, found, lengths, counted = check_matcher(), {}, [], 0
    for path in sources():
        with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
            text = f.read()
        lengths.append(text.count("\n"))
        counted += len(definitions(text))
        found.update(large(path, text))
    with open(os.path.join(SOURCE, "tests", "lint", "sizes.txt"), encoding="utf-8") as f:
        known = exceptions(f.read())
    failures += [why for what, why in sorted(found.items()) if what not in known]
    failures += [f"sizes.txt names {what}, which is not too large (any more)" for what in known if what not in found]
    if statistics.median(lengths) > MEDIAN:
        failures.append(f"the median file has {statistics.median(lengths)} lines, at most {MEDIAN}")
    for f in failures:
        print("FAIL", f)
    print(f"sizes: {len(lengths)} files, median {statistics.median(lengths):.0f} lines, {counted} definitions, {len(known)} exceptions, {len(failures)} failures")
    return 1 if failures or counted < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
