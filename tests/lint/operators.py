# One vocabulary for operators: no old form in a family, no manual line breaks in documentation.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import unittest

SOURCE = os.environ["OPC_SOURCE_DIR"]
OPS = os.path.join(SOURCE, "kernels", "ops")

# What is refused, and what stands in its place (docs/writing-an-op.md, "How a built-in family is written").
REFUSED = [
    (r"\bOPC_CPU_KERNELS|\bOPC_REGISTER_\w*CPU_KERNEL|\bOPC_ANY_TYPE_CPU_KERNEL|\bREGISTER_USER_KERNEL\b|\bCpuKernelOptions\b",
     ".Kernel<K, types::List>(arg, options) in the chain, or REGISTER_KERNELS"),
    (r"#define .*\bOP", "a fragment: .With(f)"),
    (r"\bUserOpRegisterTrigger\b|\bOpRegistry\(", "REGISTER_USER_OP(\"literal\") with a fragment"),
    (r"\b\w*4\w*ArgNameAndIndex\(", "ctx->In(arg), ctx->Out(arg), ctx->Desc(arg)"),
    (r"\b(Input|Output)(TensorDesc|Shape|DType)\(|\bhas_(in|out)put\(", "ctx->In(arg), ctx->Out(arg), ctx->Has(arg)"),
    (r"\bstaged\.(load|store)\(|\bStagedTensors<\w+> \w+\(", "StagedKernel<T>"),
    (r"\bAlwaysComputeWhenAllOutputsEmpty\b", "BindingKernel or StagedKernel<T>"),
    (r"\buser_op::", "support/Operator.h brings in the SDK's names"),
    (r"^namespace opc::(?!ops\b)", "namespace opc::ops"),
    (r"user_op_conf\(\)\.has_attr\(", "an op is known by its type: a template parameter or a second class"),
]
# Places where an old form is right, with the reason.
ALLOWED = {
    ("source/Dropout.cpp", "LogicalTensorDesc4ArgNameAndIndex("): "the whole of a tensor has no shorter name",
}


def sources():
    """(path below kernels/ops, family, text)."""
    for folder, _, files in os.walk(OPS):
        for name in sorted(files):
            if name.endswith((".cpp", ".h")):
                path = os.path.relpath(os.path.join(folder, name), OPS)
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    yield path, path.split(os.sep)[0], f.read()


class Operators(unittest.TestCase):
    def test_no_old_form(self):
        wrong = []
        for path, family, text in sources():
            if family == "support":
                continue
            for n, line in enumerate(text.split("\n"), 1):
                for pattern, better in REFUSED:
                    m = re.search(pattern, line.split("//")[0])
                    if m and (path, m.group(0)) not in ALLOWED:
                        wrong.append(f"{path}:{n}: {m.group(0)}: write {better}")
        self.assertFalse(wrong, "old forms:\n  " + "\n  ".join(wrong))

    def test_layout(self):
        """kernels/ops/<family>/<File>: no folder inside a family."""
        self.assertFalse([p for p, _, _ in sources() if p.count(os.sep) != 1])

    def test_gradients_have_their_files(self):
        """<Op>Gradient.cpp has the rules: who looks for a gradient knows where it stands."""
        wrong = [f"{path}:{n}" for path, _, text in sources() for n, line in enumerate(text.split("\n"), 1)
                 if "REGISTER_USER_OP_GRAD" in line.split("//")[0] and not path.endswith("Gradient.cpp")]
        self.assertFalse(wrong, "gradient rules outside of <Op>Gradient.cpp:\n  " + "\n  ".join(wrong))

    def test_documentation_is_prose(self):
        """`opc ops show` wraps documentation: no literal of an operator holds a line break."""
        wrong = []
        for path, _, text in sources():
            for n, line in enumerate(text.split("\n"), 1):
                if re.search(r'"(?:[^"\\]|\\.)*\\n(?:[^"\\]|\\.)*"', line):
                    wrong.append(f"{path}:{n}")
        self.assertFalse(wrong, "documentation with line breaks by hand:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    unittest.main()
