# References of optimizer arithmetic that gives an output (updates in place are tested with training).
import numpy as np

from .table import reference


@reference("l1_l2_regularize_gradient")
def l1_l2_regularize_gradient(c):
    model = c.get("model")
    return c.get("model_diff") + c.attr("l1", default=0.0) * np.sign(model) + c.attr("l2", default=0.0) * model
