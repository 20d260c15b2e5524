"""Code blocks of Markdown pages, with what the comment before one says about testing it (docs/testing.md, "Documents")."""
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import os
import re

DIRECTIVES = ("skip", "needs", "in", "exit", "numbers", "given")
COMMENT = re.compile(r"<!-- test: (\w+)[ \n]?(.*?) ?-->", re.S)


@dataclasses.dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    directives: dict

    def __str__(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """[(command, expected output)] of a console block; a sh block is one command without an expectation."""
        if self.language == "sh":
            return [(self.text, None)]
        found = []
        for line in self.text.split("\n"):
            if line.startswith("$ "):
                found.append([line[2:], []])
            elif found and not found[-1][1] and found[-1][0].endswith("\\"):
                found[-1][0] += "\n" + line
            elif found:
                found[-1][1].append(line)
            else:
                raise ValueError(f"{self}: a console block begins with a command, '$ ...'")
        return [(command, "\n".join(output)) for command, output in found]


def blocks(page, text):
    """Every block of a page; errors.md is printed by `opc explain` and has indented ones, whose commands begin with '$ '."""
    found, lines, at, pending = [], text.split("\n"), 0, {}
    while at < len(lines):
        line = lines[at]
        if line.startswith("<!-- test:"):
            first = at
            while "-->" not in lines[at]:
                at += 1
            for name, value in COMMENT.findall("\n".join(lines[first : at + 1])):
                if name not in DIRECTIVES:
                    raise ValueError(f"{page}:{at + 1}: there is no directive '{name}'; there are {', '.join(DIRECTIVES)}")
                pending[name] = value.strip()
        elif line.startswith("```"):
            first = at
            at += 1
            while not lines[at].startswith("```"):
                at += 1
            found.append(Block(page, first + 1, line[3:].strip(), "\n".join(lines[first + 1 : at]), pending))
            pending = {}
        elif re.match(r"    \S", line) and at and not lines[at - 1].strip() and not in_list(lines, at):
            first = at
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            body = "\n".join(x[4:] for x in lines[first:at]).strip("\n")
            found.append(Block(page, first + 1, "indented", body, pending))
            pending = {}
            continue
        elif line.strip():
            if pending:
                raise ValueError(f"{page}:{at + 1}: a test comment stands right before its block")
        at += 1
    return found


def in_list(lines, at):
    """Whether an indented line belongs to a list's entry."""
    while at >= 0 and (not lines[at].strip() or lines[at].startswith(" ")):
        at -= 1
    return at >= 0 and re.match(r"([-*]|\d+\.) ", lines[at]) is not None


def pages(root):
    found = [n for n in ("README.md", "CONTRIBUTING.md", "SECURITY.md") if os.path.exists(os.path.join(root, n))]
    for folder, folders, names in os.walk(os.path.join(root, "docs")):
        folders[:] = [f for f in folders if f not in ("ops", "adr")]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith(".md")]
    return sorted(p for p in found if not is_generated(os.path.join(root, p)))


def is_generated(path):
    """Whether a page is made as a whole: tablegen's pages of passes and of the dialect."""
    with open(path, encoding="utf-8") as f:
        return f.readline().startswith("<!-- Written by")


def read(root, page):
    with open(os.path.join(root, page), encoding="utf-8") as f:
        return blocks(page, f.read())


NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"


def matches(expected, got, numbers):
    """Whether the output is what the page shows: `...` is any text of a line, a line of `...` any lines."""
    pattern = ""
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
            continue
        parts = []
        for piece in line.rstrip().split("..."):
            words = re.split(f"({NUMBER})", piece) if numbers else [piece]
            parts.append("".join(NUMBER if numbers and i % 2 else re.escape(w) for i, w in enumerate(words)))
        text = r"[^\n]*".join(parts)
        if numbers:  # columns move with the width of a number
            text = re.sub(r"(?:\\ )+", r" +", text)
        pattern += text + r"[ \t]*\n"
    return re.fullmatch(pattern, got.rstrip("\n") + "\n") is not None
