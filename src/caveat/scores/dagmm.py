r"""Deep autoencoding Gaussian mixture model, in numpy: the one detector of the ADBench table that PyOD does not have.

An autoencoder gives a code and two measures of its reconstruction error, $z = (c(x), \lVert x - \hat x \rVert /
\lVert x \rVert, \cos(x, \hat x))$; a small network gives soft memberships $\gamma$ in K Gaussians, whose weights, means
and covariances follow from them in closed form. Both are trained together on

$$ \frac1n \sum_i \lVert x_i - \hat x_i \rVert^2 + \frac{\lambda_1}{n} \sum_i E(z_i)
   + \lambda_2 \sum_{k,j} \frac{1}{\Sigma_{k,jj}}, \qquad
   E(z) = -\log \sum_k \phi_k\, \mathcal N(z; \mu_k, \Sigma_k) $$

and the energy E(z) is the score. Zong, Song, Min, Cheng, Lumezanu, Cho and Chen, "Deep Autoencoding Gaussian
Mixture Model for Unsupervised Anomaly Detection", ICLR 2018, eq. (3) to (7).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_matrix, as_rng, check_result
from caveat._internal.params import check_params, count, number, positive
from caveat._internal.products import row_products
from caveat.errors import NotFittedError

__all__ = ["DAGMM"]

Array = NDArray[np.float64]
_WIDTHS = (60, 30, 10)  # of the encoder; the decoder mirrors them
_ESTIMATOR = 10
_RIDGE = 1e-6  # on the covariances
_SMALL = 1e-12  # below it a norm counts as zero


@final
@dataclass(eq=False)
class DAGMM:
    """Energy of a sample under a mixture fitted to its code and reconstruction error. The larger, the stranger.

    An estimator with ``fit(X)`` and ``decision_function(X)``; ``detector("dagmm")`` wraps it as a score. Columns are
    standardized on the training data first.

    Parameters
    ----------
    components, code
        How many Gaussians; width of the code.
    epochs, batch, learning_rate
        Of Adam. The defaults are those of ADBench.
    energy_weight, covariance_weight
        lambda_1 and lambda_2.
    dropout
        Share of the hidden units of the membership network that a training step leaves out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> train = rng.normal(size=(200, 1)) * [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=(200, 3))
    >>> model = DAGMM(epochs=60, learning_rate=1e-2).fit(train)
    >>> on_the_line, off_the_line = model.decision_function([[1.0, 2.0, -1.0], [1.0, -2.0, 1.0]])
    >>> bool(off_the_line > on_the_line)
    True
    """

    components: int = count(4, most=1000)
    code: int = count(1, most=1000)
    epochs: int = count(200)
    batch: int = count(256)
    learning_rate: float = positive(1e-4)
    energy_weight: float = positive(0.1)
    covariance_weight: float = positive(0.005)
    dropout: float = number(0.5, least=0, most=0.999999)

    def __post_init__(self) -> None:
        check_params(self)

    def fit(self, X: ArrayLike, *, rng: Rng = 0) -> Self:
        """Train on rows (n, D); labels are not needed. ``rng`` seeds the weights, the batches and the dropout."""
        rows = as_matrix(X, "X").astype(np.float64)
        self.centre_ = rows.mean(axis=0)
        spread = rows.std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        rows = (rows - self.centre_) / self.spread_
        rng = as_rng(rng)
        self.weights_ = _start(rows.shape[1], self.code, self.components, rng)
        first, second = np.zeros_like(self.weights_), np.zeros_like(self.weights_)
        step = 0
        for _ in range(self.epochs):
            order = rng.permutation(rows.shape[0])
            for start in range(0, order.size, self.batch):
                chosen = order[start : start + self.batch]
                if chosen.size <= self.components and start:
                    continue  # a remnant too small for as many Gaussians
                keep = (rng.random((chosen.size, _ESTIMATOR)) >= self.dropout) / (1 - self.dropout)
                _, slope = self._loss(self.weights_, rows[chosen], keep)
                slope *= min(1.0, 5.0 / max(float(np.linalg.norm(slope)), _SMALL))  # a covariance may all but vanish
                step += 1
                first += 0.1 * (slope - first)  # Adam, Kingma and Ba 2015, with its usual constants
                second += 0.001 * (slope**2 - second)
                rate = self.learning_rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                self.weights_ -= rate * first / (np.sqrt(second) + 1e-8)
        latent, members = self._see(rows)
        self.mixture_, self.means_, self.covariances_ = _gaussians(latent, members)
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Energy of each row, shape (n,)."""
        if not hasattr(self, "mixture_"):
            raise NotFittedError("DAGMM has not seen training data. Call fit(X) before decision_function(X).")
        rows = as_matrix(X, "X", width=self.centre_.size).astype(np.float64)
        latent, _ = self._see((rows - self.centre_) / self.spread_)
        return check_result(_energies(latent, self.mixture_, self.means_, self.covariances_)[0], "the energy")

    def _see(self, rows: Array) -> tuple[Array, Array]:
        """Latent vectors and memberships, without dropout."""
        layers = _layers(self.weights_, rows.shape[1], self.code, self.components)
        states = _autoencode(layers, rows)
        latent = np.column_stack([states[4], *_errors(rows, states[8])[:2]])
        hidden = np.tanh(latent @ layers[8][0] + layers[8][1])
        return latent, _softmax(hidden @ layers[9][0] + layers[9][1])

    def _loss(self, weights: Array, rows: Array, keep: Array) -> tuple[float, Array]:
        """The objective on one batch and its gradient, by hand: numpy has no autograd."""
        n = rows.shape[0]
        layers = _layers(weights, rows.shape[1], self.code, self.components)
        states = _autoencode(layers, rows)
        code, rebuilt = states[4], states[8]
        relative, cosine, gap, norm, rebuilt_norm = _errors(rows, rebuilt)
        latent = np.column_stack([code, relative, cosine])
        hidden = np.tanh(latent @ layers[8][0] + layers[8][1])
        dropped = hidden * keep
        members = _softmax(dropped @ layers[9][0] + layers[9][1])
        phi, mu, cov = _gaussians(latent, members)
        energy, blame, pull, inverse = _energies(latent, phi, mu, cov)
        diagonal = np.einsum("kjj->kj", cov)
        loss = float(
            (gap**2).sum() / n + self.energy_weight * energy.mean() + self.covariance_weight * (1 / diagonal).sum()
        )

        # Through the energy: blame (n, K) is each Gaussian's share of a point, pull (n, K, d) is S^-1 (z - mu).
        lam = self.energy_weight / n
        size = members.sum(axis=0)
        offset = latent[:, None, :] - mu
        blamed = blame[:, :, None] * pull
        to_latent = lam * blamed.sum(axis=1)
        to_mu = -lam * blamed.sum(axis=0)
        blames = blame.sum(axis=0)
        to_cov = lam / 2 * (blames[:, None, None] * inverse - blamed.transpose(1, 2, 0) @ pull.transpose(1, 0, 2))
        to_cov -= self.covariance_weight * np.einsum("kj,jl->kjl", 1 / diagonal**2, np.eye(diagonal.shape[1]))
        # Through weights, means and covariances to the memberships and the latent vectors they were made from.
        turned = _apply(to_cov, offset)
        plain = cov - _RIDGE * np.eye(cov.shape[1])
        to_members = -lam * blames / phi / n + np.einsum("kd,nkd->nk", to_mu, offset) / size
        to_members += (np.einsum("nkd,nkd->nk", offset, turned) - np.einsum("kde,kde->k", to_cov, plain)) / size
        share = members / size
        to_latent += share @ to_mu + 2 * np.einsum("nk,nkd->nd", share, turned)

        slopes: list[tuple[Array, Array]] = [(np.empty(0), np.empty(0))] * 10
        to_scores = members * (to_members - (members * to_members).sum(axis=1, keepdims=True))
        slopes[9] = (dropped.T @ to_scores, to_scores.sum(axis=0))
        to_hidden = (to_scores @ layers[9][0].T) * keep * (1 - hidden**2)
        slopes[8] = (latent.T @ to_hidden, to_hidden.sum(axis=0))
        to_latent += to_hidden @ layers[8][0].T

        width = self.code
        to_rebuilt = -2 * gap / n
        to_rebuilt -= (to_latent[:, width] / (norm * np.maximum(relative * norm, _SMALL)))[:, None] * gap
        to_rebuilt += to_latent[:, [width + 1]] * (
            rows / (norm * rebuilt_norm)[:, None] - (cosine / rebuilt_norm**2)[:, None] * rebuilt
        )
        back = to_rebuilt
        for i in range(7, -1, -1):
            slopes[i] = (states[i].T @ back, back.sum(axis=0))
            back = back @ layers[i][0].T
            if i == 4:
                back = back + to_latent[:, :width]  # the code feeds the decoder and the mixture; it has no tanh
            elif i:
                slope = np.square(states[i])
                np.subtract(1, slope, out=slope)
                back *= slope
        return loss, np.concatenate([part.ravel() for pair in slopes for part in pair])


def _shapes(width: int, code: int, components: int) -> list[tuple[int, int]]:
    sizes = [width, *_WIDTHS, code, *reversed(_WIDTHS), width]
    return [*itertools.pairwise(sizes), (code + 2, _ESTIMATOR), (_ESTIMATOR, components)]


def _start(width: int, code: int, components: int, rng: np.random.Generator) -> Array:
    """All weights in one vector: uniform within 1 / sqrt(inputs), biases too."""
    parts = [
        rng.uniform(-1, 1, size=(rows + 1) * columns) / np.sqrt(rows)
        for rows, columns in _shapes(width, code, components)
    ]
    return np.concatenate(parts)


def _layers(weights: Array, width: int, code: int, components: int) -> list[tuple[Array, Array]]:
    """(matrix, bias) views of the weight vector: 4 encoder, 4 decoder and 2 membership layers."""
    layers, at = [], 0
    for rows, columns in _shapes(width, code, components):
        matrix = weights[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns
        layers.append((matrix, weights[at : at + columns]))
        at += columns
    return layers


def _autoencode(layers: list[tuple[Array, Array]], rows: Array) -> list[Array]:
    """The input of every layer and, last, the reconstruction; the code is state 4."""
    states = [rows]
    for i, (matrix, bias) in enumerate(layers[:8]):
        value = row_products(states[-1], matrix)
        value += bias
        states.append(value if i in (3, 7) else np.tanh(value, out=value))
    return states


def _errors(rows: Array, rebuilt: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Relative distance and cosine to the reconstruction; and the gap and norms they are made of."""
    gap = rows - rebuilt
    norm = np.maximum(np.linalg.norm(rows, axis=1), _SMALL)
    rebuilt_norm = np.maximum(np.linalg.norm(rebuilt, axis=1), _SMALL)
    cosine = np.einsum("ij,ij->i", rows, rebuilt) / (norm * rebuilt_norm)
    return np.linalg.norm(gap, axis=1) / norm, cosine, gap, norm, rebuilt_norm


def _gaussians(latent: Array, members: Array) -> tuple[Array, Array, Array]:
    """Weights (K,), means (K, d) and covariances (K, d, d) of soft members, eq. (5)."""
    size = members.sum(axis=0)
    mu = (members.T @ latent) / size[:, None]
    offset = latent[:, None, :] - mu
    weighted = members[:, :, None] * offset
    cov = weighted.transpose(1, 2, 0) @ offset.transpose(1, 0, 2) / size[:, None, None]
    return size / latent.shape[0], mu, cov + _RIDGE * np.eye(latent.shape[1])


def _energies(latent: Array, phi: Array, mu: Array, cov: Array) -> tuple[Array, Array, Array, Array]:
    """Energy of each point, eq. (6); each Gaussian's share of it; S^-1 (z - mu); and S^-1."""
    inverse: Array = np.linalg.inv(cov).astype(np.float64)
    offset = latent[:, None, :] - mu
    pull = _apply(inverse, offset)
    _, log_det = np.linalg.slogdet(cov)
    distance = np.einsum("nkd,nkd->nk", offset, pull)
    log_joint = np.log(phi) - (distance + log_det + latent.shape[1] * np.log(2 * np.pi)) / 2
    top = log_joint.max(axis=1, keepdims=True)
    share = np.exp(log_joint - top)
    total = share.sum(axis=1, keepdims=True)
    return -(np.log(total) + top)[:, 0], share / total, pull, inverse


def _apply(matrices: Array, vectors: Array) -> Array:
    """Matrix k times vector (n, k), shape (n, K, d); the matrices are symmetric."""
    product: Array = (vectors.transpose(1, 0, 2) @ matrices).transpose(1, 0, 2)
    return product


def _softmax(scores: Array) -> Array:
    shifted: Any = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return result
