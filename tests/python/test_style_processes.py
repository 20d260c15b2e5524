"""Programs in other systems' styles that fork, and that call from many threads: each goes on."""
# SPDX-License-Identifier: Apache-2.0
import os
import unittest

import oneflow_listings
from mxnet_listings import IMPORTS, SIGMOID_OP, SIGMOID_PROP
from paddle_listings import CUS_TANH, FUNCTIONS
from style_programs import StyleTest

MXNET = IMPORTS + SIGMOID_OP + SIGMOID_PROP + """
import numpy as np
def use(k):
    x = mx.nd.array([k, 1])
    x.attach_grad()
    with autograd.record():
        y = mx.nd.Custom(x, op_type='sigmoid')
    y.backward()
    s = 1 / (1 + np.exp(-np.array([k, 1], 'f')))
    return np.allclose(y.asnumpy(), s, rtol=1e-5) and np.allclose(x.grad.asnumpy(), s * (1 - s), rtol=1e-5)
"""
PYLAYER = CUS_TANH + """
import numpy as np
def use(k):
    x = paddle.to_tensor([float(k), 1.0], stop_gradient=False)
    y = cus_tanh.apply(x)
    y.sum().backward()
    t = np.tanh(np.array([k, 1], 'f'))
    return np.allclose(y.numpy(), t, rtol=1e-5) and np.allclose(x.grad.numpy(), 1 - t * t, atol=1e-5)
"""
PY_FUNC = "import paddle\n" + FUNCTIONS + """
import numpy as np
paddle.enable_static()
x = paddle.static.data('x', [2])
y = paddle.static.default_main_program().current_block().create_var(name='y', dtype='float32', shape=[2])
paddle.static.py_func(tanh, x, y, tanh_grad)
dx, = paddle.static.gradients(y, x)
exe = paddle.static.Executor()
def use(k):
    v = np.array([k, 1], 'f')
    found, slope = exe.run(feed={'x': v}, fetch_list=[y, dx])
    return np.allclose(found, np.tanh(v), rtol=1e-5) and np.allclose(slope, 1 - np.tanh(v) ** 2, atol=1e-5)
"""
ONEFLOW = """
import os
import numpy as np
import oneflow as flow
import oneflow.typing as tp
os.environ['XDG_CACHE_HOME'] = os.path.abspath('cache')
module = flow.experimental.custom_op_module('user_relu', os.getcwd()).py_api().cpp_def().py_kernel().build_load()
@flow.global_function()
def job(x: tp.Numpy.Placeholder((2,))) -> tp.Numpy:
    return module.api.user_relu_forward(x)
def use(k):
    return np.array_equal(job(np.array([-k - 1, k], 'f')), [0, k])
"""
STARTED = """
import threading
import numpy as np
import mxnet as mx
import paddle
from paddle.autograd import PyLayer
raised = []
threading.excepthook = lambda given: raised.append(str(given.exc_value))
def started(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
class Op(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x, y = in_data[0], out_data[0]
        started(lambda: self.assign(y, req[0], x * 2))
        started(lambda: started(lambda: self.assign(y, 'add', mx.nd.exp(x))))
        started(lambda: mx.nd.Custom(x, op_type='threads'))
@mx.operator.register('threads')
class Prop(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Op()
class layer(PyLayer):
    @staticmethod
    def forward(ctx, x):
        made = []
        started(lambda: made.append(paddle.tanh(x) * 2))
        return made[0]
v = np.array([0.5, -1], 'f')
assert np.allclose(mx.nd.Custom(mx.nd.array(v), op_type='threads').asnumpy(), 2 * v + np.exp(v), rtol=1e-6)
assert np.allclose(layer.apply(paddle.to_tensor(v)).numpy(), 2 * np.tanh(v), rtol=1e-6)
assert len(raised) == 1 and "mxnet::threads: an operator's own code cannot call Custom" in raised[0], raised
started(lambda: raised.append(mx.nd.exp(mx.nd.array(v)).asnumpy()))
assert np.allclose(raised[1], np.exp(v), rtol=1e-6)
print("done")
"""
FORKS = """
import os
assert use(3)
for i in range(100):
    child = os.fork()
    if child == 0:
        os._exit(0 if use(i) else 1)
    assert use(i + 1), i
    assert os.waitpid(child, 0)[1] == 0, i
print('done')
"""
THREADS = """
import threading
right = []
def work(k):
    right.extend(use(k + i) for i in range(25))
threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert len(right) == 400 and all(right), len(right)
print('done')
"""


class Processes(StyleTest):
    def both(self, program):
        for how in (FORKS, THREADS):
            with self.subTest(how.split()[1]):
                self.assertEqual(self.program(program, how), "done\n")

    def test_custom_op(self):
        self.both(MXNET)

    def test_pylayer(self):
        self.both(PYLAYER)

    def test_py_func(self):
        self.both(PY_FUNC)

    def test_threads_that_an_operator_starts_are_inside_of_it(self):
        self.assertEqual(self.program(STARTED), "done\n")

    def test_oneflow_directory(self):
        os.mkdir(os.path.join(self.folder, "user_relu"))
        for part, text in (("cpp_def.cpp", oneflow_listings.USER_RELU_CPP_DEF), ("py_api.py", oneflow_listings.USER_RELU_PY_API),
                           ("py_kernel.py", oneflow_listings.USER_RELU_PY_KERNEL)):  # fmt: skip
            self.write("user_relu/user_relu_" + part, text)
        self.both(ONEFLOW)


if __name__ == "__main__":
    unittest.main()
