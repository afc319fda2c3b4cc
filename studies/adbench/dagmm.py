r"""Deep autoencoding Gaussian mixture model: PyOD has none, the published table has one.

Zong, Song, Min, Cheng, Lumezanu, Cho and Chen, ICLR 2018. An autoencoder gives a code and two reconstruction errors
(relative Euclidean distance and cosine); a small network turns them into soft memberships of a Gaussian mixture whose
parameters are the weighted moments of the batch (eq. 5); the strangeness is the sample energy (eq. 6). Settings are
those ADBench runs: code of size 1, 4 components, 200 epochs of batches of 256, learning rate 1e-4 divided by 10 after
50 epochs, weights 0.1 of the energy and 0.005 of the inverse variances.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["DAGMM"]


class _Network(nn.Module):
    def __init__(self, width: int, components: int) -> None:
        super().__init__()
        sizes = [width, 60, 30, 10, 1]
        self.encoder = _stack(sizes)
        self.decoder = _stack(sizes[::-1])
        self.membership = nn.Sequential(
            nn.Linear(3, 10), nn.Tanh(), nn.Dropout(0.5), nn.Linear(10, components), nn.Softmax(dim=1)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        code = self.encoder(x)
        back = self.decoder(code)
        distance = (x - back).norm(dim=1) / x.norm(dim=1).clamp_min(1e-10)
        cosine = nn.functional.cosine_similarity(x, back, dim=1)
        z = torch.cat([code, distance[:, None], cosine[:, None]], dim=1)
        return back, z, self.membership(z)


class DAGMM:
    """``fit`` on unlabelled rows, then ``decision_function``: the larger, the stranger."""

    def __init__(self, *, seed: int, components: int = 4, epochs: int = 200, batch: int = 256) -> None:
        self.seed, self.components, self.epochs, self.batch = seed, components, epochs, batch

    def fit(self, rows: NDArray[np.float64]) -> DAGMM:
        torch.manual_seed(self.seed)
        x = torch.as_tensor(rows, dtype=torch.float32)
        self.network = _Network(x.shape[1], self.components)
        optimiser = torch.optim.Adam(self.network.parameters(), lr=1e-4)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones=[50], gamma=0.1)
        self.network.train()
        for _ in range(self.epochs):
            for chosen in torch.randperm(x.shape[0]).split(self.batch):
                if chosen.numel() < 2:
                    continue
                back, z, member = self.network(x[chosen])
                share, mean, factor, inverse_variances = _mixture(z, member)
                loss = (x[chosen] - back).square().sum(dim=1).mean()
                loss = loss + 0.1 * _energy(z, share, mean, factor).mean() + 0.005 * inverse_variances
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
                optimiser.step()
            schedule.step()
        self.network.eval()
        with torch.no_grad():
            _, z, member = self.network(x)
            self.share, self.mean, self.factor, _ = _mixture(z, member)
        return self

    def decision_function(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        with torch.no_grad():
            _, z, _ = self.network(torch.as_tensor(rows, dtype=torch.float32))
            return _energy(z, self.share, self.mean, self.factor).double().numpy()


def _stack(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        layers += [nn.Linear(fan_in, fan_out), *([nn.Tanh()] if i < len(sizes) - 2 else [])]
    return nn.Sequential(*layers)


def _mixture(z: Tensor, member: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    mass = member.sum(dim=0).clamp_min(1e-6)
    mean = member.T @ z / mass[:, None]
    centred = z[:, None, :] - mean
    covariance = torch.einsum("nk,nki,nkj->kij", member, centred, centred) / mass[:, None, None]
    # A component that holds one point has no spread; the ridge keeps its factor finite.
    covariance = covariance + 1e-4 * torch.eye(z.shape[1])
    inverse_variances = (1 / covariance.diagonal(dim1=1, dim2=2)).sum()
    return mass / mass.sum(), mean, torch.linalg.cholesky(covariance), inverse_variances


def _energy(z: Tensor, share: Tensor, mean: Tensor, factor: Tensor) -> Tensor:
    white = torch.linalg.solve_triangular(factor, (z[:, None, :] - mean)[..., None], upper=False)[..., 0]
    log_det = factor.diagonal(dim1=1, dim2=2).log().sum(dim=1)
    constant = 0.5 * z.shape[1] * np.log(2 * np.pi)
    return -torch.logsumexp(share.log() - 0.5 * white.square().sum(dim=2) - log_det - constant, dim=1)
