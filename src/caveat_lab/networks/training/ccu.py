r"""CCU: a classifier gated by the ratio of two densities, with provably low confidence far from the training data.

$$ p(y|x) = \frac{p(y|x, i)\, p(x|i) + \tfrac1K \lambda\, p(x|o)}{p(x|i) + \lambda\, p(x|o)} $$

Meinke and Hein, "Towards Neural Networks that Provably Know when they don't Know", ICLR 2020, arXiv:1909.12180; in this
form eq. (12) of the appendix of Bitterwolf, Meinke and Hein, NeurIPS 2020. The densities are mixtures of Gaussians,
fitted by expectation-maximization with a common variance to training images and to outliers, in the metric of the
pixels; the network is then trained on the gated probabilities. With ``trained=True`` the mixtures are trained along,
as published, by the gated loss and by their own likelihood:

$$ -\frac1N \sum_i \bigl(\log p(y_i|x_i) + \log p(x_i|i)\bigr)
   - \frac{\kappa}{M} \sum_j \Bigl(\tfrac1K \sum_y \log p(y|z_j) + \log p(z_j|o)\Bigr) $$

Three things differ from the published method: the metric is that of the pixels; lambda is set before the first step,
see below; bounds are over the box itself (``DensityRatio``), where the ball around it certifies nothing.

$$ \hat\lambda = \arg\max_\lambda \; \frac1n \sum_i \sigma\bigl(r(x_i) - \log\lambda\bigr)
   - \frac1m \sum_j \sigma\bigl(\overline r(z_j) - \log\lambda\bigr) $$

with r the log-ratio of the two densities, x held-back inliers, z uniform noise, and the bar an upper bound over a box.
The sigmoid is the weight b/(1+b) that CCU gives to its classifier, so the difference is that of a mean confidence and a
mean guaranteed one, up to a factor. Log-ratios of images spread over hundreds and the sigmoid rises within ten: the
weight is nearly 0 or 1, and for such a score the guaranteed area under the ROC curve is (1 + difference) / 2. The area
itself cannot be the criterion: for a sure classifier it is the same for every lambda but for rounding.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.checks import as_number
from caveat._internal.params import count, number, share
from caveat.errors import CaveatWarning, InputError
from caveat_lab.bounds import effective_gate
from caveat_lab.bounds.arithmetic import REAL, Arithmetic
from caveat_lab.networks.training.joint import Clip, GatedModel, GatedParadigm
from caveat_lab.networks.training.paradigm import Batch, Loss
from caveat_lab.networks.training.rows import Draw, Rows
from caveat_lab.networks.training.schedule import Share
from caveat_lab.robust.density_ratio import DensityRatio, fit_density_ratio
from caveat_lab.robust.mixtures import Mixture

__all__ = ["CCU", "CCUModel", "choose_log_out_weight", "gate_gap"]

_HELD_BACK = 2_000  # training rows, at most a tenth, and as many images of noise that lambda is set by
_MEANS = ("in_means", "out_means")
_MIXTURES = ("in_weights", "in_means", "in_variances", "out_weights", "out_means", "out_variances")


@final
class CCUModel(GatedModel):
    """A classifier gated by two mixtures.

    The mixtures are kept in float64 whatever the classifier uses: their logarithms are of the size of thousands.
    Trained mixtures are parameters, with logarithms of the weights and variances.
    """

    in_weights: Tensor
    log_out_weight: Tensor

    def __init__(self, classifier: nn.Module, n_classes: int, *, trained: bool = False) -> None:
        super().__init__(classifier, n_classes)
        self.trained = trained
        for name in _MIXTURES:
            if trained:
                self.register_parameter(name, nn.Parameter(torch.empty(0, dtype=torch.float64)))
            else:
                self.register_buffer(name, torch.empty(0, dtype=torch.float64))
        self.register_buffer("log_out_weight", torch.zeros((), dtype=torch.float64))

    def set_ratio(self, ratio: DensityRatio, *, log_out_weight: float = 0.0) -> None:
        """Take over spherical mixtures in the coordinates of the inputs, and the logarithm of a further lambda.

        Lambda can be beyond what a float holds: densities of images differ by hundreds of orders of magnitude.
        """
        if ratio.transform is not None or not (ratio.inside.spherical and ratio.outside.spherical):
            raise InputError("CCU takes spherical mixtures in the coordinates of the inputs, got others.")
        parts = [part for mix in (ratio.inside, ratio.outside) for part in (mix.weights, mix.means, mix.variances)]
        for name, value in zip(_MIXTURES, parts, strict=True):
            stored = np.log(value) if self.trained and name not in _MEANS else np.ascontiguousarray(value)
            self._store(name, torch.from_numpy(stored))
        total = float(np.log(ratio.out_weight)) + as_number(log_out_weight, "log_out_weight")
        self.log_out_weight = torch.full_like(self.log_out_weight, total, dtype=torch.float64)

    def ratio(self) -> DensityRatio:
        """The mixtures as arrays, with their bounds; lambda is left out."""
        if not self.in_weights.numel():
            raise InputError("the mixtures are not fitted yet. Train the model, or call set_ratio.")
        parts = [part.detach().cpu().numpy() for part in (*self._mixture("in"), *self._mixture("out"))]
        return DensityRatio(Mixture(*parts[:3]), Mixture(*parts[3:]))

    def _store(self, name: str, value: Tensor) -> None:
        moved = value.to(self.log_out_weight.device)
        setattr(self, name, nn.Parameter(moved) if self.trained else moved)

    def _mixture(self, side: str) -> tuple[Tensor, Tensor, Tensor]:
        """Weights, means and variances of one density."""
        weights, means, variances = (
            getattr(self, f"{side}_{what}").double() for what in ("weights", "means", "variances")
        )
        return (weights.softmax(dim=0), means, variances.exp()) if self.trained else (weights, means, variances)

    def log_densities(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """log p(x|i) and log p(x|o), each (n,) in float64."""
        rows = x.flatten(1).double()
        return _log_density(rows, *self._mixture("in")), _log_density(rows, *self._mixture("out"))

    def gate(self, x: Tensor) -> Tensor:
        """log b (n,): the larger, the more like training data; 0 before the mixtures are fitted."""
        if not self.in_weights.numel():
            return x.new_zeros(len(x))
        inside, outside = self.log_densities(x)
        return (inside - outside - self.log_out_weight).to(x.dtype)

    def effective_gate(self, x: Tensor) -> Tensor:
        """An increasing function of the confidence that does not saturate (n,), see ``bounds.effective_gate``."""
        return effective_gate(self.classifier(x.clone()), self.gate(x))

    def gate_upper(
        self, x: Tensor, epsilon: float | Tensor, clip: Clip = (0.0, 1.0), slack: Arithmetic = REAL
    ) -> Tensor:
        radius = epsilon.double().cpu().numpy() if isinstance(epsilon, Tensor) else epsilon
        rows = x.flatten(1).double().cpu().numpy()
        shift = self.log_out_weight.double().cpu()
        upper = torch.from_numpy(self.ratio().bounds(rows, radius, clip=clip, side="upper").upper) - shift
        unit = 4 * torch.finfo(torch.float64).eps
        upper = upper + unit * (upper.abs() + shift.abs())  # the rounding of that
        lost: Tensor = unit * (rows.shape[1] + 4) * self._squares(rows, radius)  # and of the gate
        upper = upper + lost
        return (upper + slack.lost(1) * upper.abs()).to(x.device)  # the gate is cast to the type of the network

    def _squares(self, rows: NDArray[np.float64], radius: Any) -> Tensor:
        """Magnitudes that the gate adds up before they cancel (n,): squares of inputs and centers, by the variances."""
        reach = np.square(np.abs(rows) + np.reshape(radius, (-1, 1))).sum(axis=1)
        ratio = self.ratio()
        sums = [(reach + np.square(mix.means).sum(axis=1).max()) / mix.variances.min()
                for mix in (ratio.inside, ratio.outside)]  # fmt: skip
        return torch.from_numpy(sums[0] + sums[1])

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in _MIXTURES:  # the number of Gaussians is known only from the file
            if (stored := state_dict.get(prefix + name)) is not None:
                self._store(name, torch.empty_like(stored))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _log_density(rows: Tensor, weights: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """log p(x) (n,) of a spherical mixture, by one matrix product."""
    squares = rows.square().sum(dim=1)[:, None] - 2 * rows @ means.T + means.square().sum(dim=1)
    scales = weights.log() - means.shape[1] / 2 * (2 * torch.pi * variances).log()
    return torch.logsumexp(scales - squares / (2 * variances), dim=1)


@final
@dataclass(frozen=True)
class CCU(GatedParadigm):
    """Cross-entropy on inliers and towards uniform on outliers, both of the gated probabilities.

    Parameters
    ----------
    components
        Gaussians in each density.
    kappa
        Weight of the outliers.
    rows
        Training images, and outliers, that each density is fitted to.
    epsilon
        Radius in the largest entry that lambda is set for.
    inlier_share
        None: lambda is set so that the mean confidence on training images that the densities have not seen exceeds
        the mean guaranteed one on uniform noise, over the range of the data and at the radius, by as much as can be.
        A number: that share of the images the densities were fitted to has b >= 1; the rest is answered with little
        confidence.
    iterations
        Steps of expectation-maximization.
    ramp
        When kappa starts to rise and when it arrives, in shares of all steps.
    trained
        Train the mixtures along with the network, as published; False keeps them as fitted.
    mixture_rate
        Learning rate of trained mixtures, as a share of that of the network. Published: 0.002 on MNIST.

    Examples
    --------
    >>> CCU(components=20).build(nn.Linear(4, 3), 3).gate(torch.rand(2, 4))
    tensor([0., 0.])
    """

    components: int = count(100)
    kappa: float = number(0.3, least=0)
    rows: int = count(20_000)
    epsilon: float = number(0.3, least=0)
    inlier_share: float | None = share(None)
    iterations: int = count(10)
    ramp: Share = (0.0, 0.0)
    trained: bool = False
    mixture_rate: float = number(0.002, least=0)

    name: ClassVar[str] = "ccu"
    ramps: ClassVar[dict[str, str]] = {"kappa": "ramp"}

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        return CCUModel(model, n_classes, trained=self.trained)

    def rates(self, net: nn.Module) -> list[tuple[float, list[nn.Parameter]]]:
        """The learning rate of trained mixtures.

        Parameters
        ----------
        net
            The result of :meth:`build`.

        Returns
        -------
        list of tuple
            A factor and the parameters that it holds for; empty for fixed mixtures.
        """
        return [(self.mixture_rate, [getattr(net, name) for name in _MIXTURES])] if self.trained else []

    def prepare(self, net: nn.Module, rows: Rows, draw: Draw | None, generator: torch.Generator) -> None:
        """Fit both densities and set lambda.

        Parameters
        ----------
        net
            The result of :meth:`build`.
        rows
            The training data.
        draw
            Gives outliers.
        generator
            The source of randomness.
        """
        assert isinstance(net, CCUModel)
        assert draw is not None
        held_back = max(1, min(_HELD_BACK, rows.n // 10)) if self.inlier_share is None else 0
        n = min(self.rows, rows.n - held_back)
        order = torch.randperm(rows.n, generator=generator)
        inlier = rows.take(order[:n])[0].flatten(1).numpy()
        outlier = draw(n, generator).flatten(1).cpu().numpy()
        rng = np.random.default_rng(int(torch.randint(2**31, (), generator=generator)))
        ratio = fit_density_ratio(
            inlier=inlier, outlier=outlier, rng=rng, components=self.components, covariance="common",
            iterations=self.iterations,
        )  # fmt: skip
        if not ratio.vanishes_far_away:
            warnings.warn(
                "the widest Gaussian is inside, so far away from all data the confidence does not fall to 1/K. "
                "Use more varied outliers.",
                CaveatWarning,
                stacklevel=4,
            )
        if self.inlier_share is None:
            cut = self._cut(ratio, rows.take(order[rows.n - held_back :])[0].flatten(1).numpy(), generator)
        else:
            cut = float(np.quantile(ratio.log_ratio(inlier), 1 - self.inlier_share))
        net.set_ratio(ratio, log_out_weight=cut)

    def _cut(self, ratio: DensityRatio, held_back: NDArray[np.float32], generator: torch.Generator) -> float:
        """log lambda from rows that the densities have not seen, and from noise."""
        low, high = float(held_back.min()), float(held_back.max())
        noise = torch.rand((_HELD_BACK, held_back.shape[1]), generator=generator).double().numpy()
        noise = np.clip(low + (high - low) * noise, low, high)
        inlier = ratio.log_ratio(held_back)
        outlier = ratio.bounds(noise, self.epsilon, clip=(low, high), side="upper")
        cut = choose_log_out_weight(inlier=inlier, outlier_upper=outlier.upper)
        if gate_gap(cut, inlier=inlier, outlier_upper=outlier.upper) > 0.5:
            return cut
        warnings.warn(
            f"at radius {self.epsilon:g} the densities guarantee little: no lambda separates most training data from "
            "the bounds around noise, so lambda is set for noise itself. Use a smaller epsilon or more components.",
            CaveatWarning,
            stacklevel=5,
        )
        return choose_log_out_weight(inlier=inlier, outlier_upper=outlier.value)

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert isinstance(net, CCUModel)
        assert batch.outliers is not None
        (kappa,) = self.ramped(batch.progress)
        inlier, outlier = batch.both(net)
        inside, outside = F.nll_loss(inlier, batch.labels), -outlier.mean()
        loss, parts = inside + kappa * outside, {"in": inside.item(), "out": outside.item()}
        if self.trained:
            known, strange = -net.log_densities(batch.inputs)[0].mean(), -net.log_densities(batch.outliers)[1].mean()
            loss, parts = loss + known + kappa * strange, parts | {"known": known.item(), "strange": strange.item()}
        return loss, parts


def gate_gap(log_out_weight: float, *, inlier: ArrayLike, outlier_upper: ArrayLike) -> float:
    """Mean weight of the classifier on inliers minus the mean guaranteed one on outliers. Higher is better, at most 1.

    ``inlier`` (n,) holds log-ratios and ``outlier_upper`` (m,) upper bounds of log-ratios, both with lambda = 1.

    >>> gate_gap(0.0, inlier=[50.0, 0.0], outlier_upper=[-50.0])
    0.75
    """
    inside, outside = (expit(np.asarray(ratios) - log_out_weight).mean() for ratios in (inlier, outlier_upper))
    return float(inside - outside)


def choose_log_out_weight(*, inlier: ArrayLike, outlier_upper: ArrayLike) -> float:
    """log lambda with the largest gap, of those halfway between two neighboring values.

    Log-ratios of inliers that the densities were fitted to are too high: hold some back.

    >>> choose_log_out_weight(inlier=[300.0, 200.0, 100.0, -90.0], outlier_upper=[-100.0, -80.0, 0.0])
    50.0
    """
    values = np.sort(np.concatenate([inlier, outlier_upper]))
    middles = (values[1:] + values[:-1]) / 2
    return float(max(middles, key=lambda cut: gate_gap(cut, inlier=inlier, outlier_upper=outlier_upper)))
