"""MAPIE: risk control of multi-label recall.

Documentation: https://mapie.readthedocs.io, ``MultiLabelClassificationController``. The timed run is the documented
call. The repeated draws compute the same matrix of losses with numpy (its loop over rows and thresholds takes most of
the time) and pass it to MAPIE's own functions for the bound and the choice; on the timed problem both must agree.
"wsr, alpha on the grid" asks for an alpha that is one of the candidates, as the default settings do.
"""

import numpy as np
from mapie.risk_control import MultiLabelClassificationController
from mapie.risk_control.methods import find_best_predict_param, get_r_hat_plus
from turns import run


def truth(data):
    table = np.zeros(data.probs.shape, dtype=int)
    table[:, : data.true_labels] = 1
    return table


def documented(method, bound, alpha="alpha"):
    def calibrate(data):
        parameters = {} if method == "crc" else {"confidence_level": 1 - data.delta, "rcps_bound": bound}
        controller = MultiLabelClassificationController(
            predict_function=lambda x: x, risk="recall", method=method, target_level=1 - getattr(data, alpha),
            predict_params=data.lambdas, **parameters,
        )  # fmt: skip
        return controller.calibrate(data.probs, truth(data))

    return calibrate, lambda controller, _: float(controller.best_predict_param[0])


def on_losses(method, bound, alpha="alpha"):
    def losses(data):
        return (data.probs[:, : data.true_labels, None] <= data.lambdas).mean(axis=1)

    def choose(table, data):
        delta = None if method == "crc" else data.delta
        initial = MultiLabelClassificationController.sigma_init
        _, upper = get_r_hat_plus(table, data.lambdas, method, bound, delta, initial)
        chosen = float(find_best_predict_param(data.lambdas, upper, np.array([getattr(data, alpha)]))[0])
        if not hasattr(data, "draw"):  # the timed problem: both ways must agree
            assert chosen == documented(method, bound, alpha)[0](data).best_predict_param[0]
        return chosen

    return losses, choose


NAMES = {"crc": ("crc", None), "wsr": ("rcps", "wsr"), "hoeffding": ("rcps", "hoeffding"),
         "bernstein": ("rcps", "bernstein"), "wsr, alpha on the grid": ("rcps", "wsr", "candidate")}  # fmt: skip
METHODS = {name: documented(*how) for name, how in NAMES.items()}

if __name__ == "__main__":
    run("mapie", METHODS, judged={name: on_losses(*how) for name, how in NAMES.items()})
