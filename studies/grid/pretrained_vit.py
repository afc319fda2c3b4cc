"""A pretrained vision transformer with a new last layer, as a backbone of ``full.toml``.

The weights are those of a folder in the format of the package transformers (config.json, model.safetensors), such as a
clone of google/vit-base-patch16-224-in21k. Nothing is downloaded.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat import InputError
from caveat.errors import MissingExtraError


@final
class PretrainedViT(nn.Module):
    """Images of any size are enlarged to that of the pretraining; the head sees the class token."""

    def __init__(self, body: Any, classes: int, dropout: float) -> None:
        super().__init__()
        self.body, self.side = body, int(body.config.image_size)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(int(body.config.hidden_size), classes)

    def forward(self, images: Tensor) -> Any:
        large = F.interpolate(images, size=(self.side, self.side), mode="bilinear", align_corners=False)
        tokens = self.body(pixel_values=2 * large - 1).last_hidden_state
        return self.head(self.dropout(tokens[:, 0]))


def network(in_shape: tuple[int, int, int], classes: int, dropout: float = 0.0, folder: str = "") -> nn.Module:
    """The network of a plan; ``folder`` may hold names of environment variables.

    The transformer's own dropout layers have the same rate, so that dropout passes reach all blocks.
    """
    place = Path(os.path.expandvars(folder))
    if not (place / "config.json").is_file():
        raise InputError(f"folder must hold a pretrained ViT (config.json, model.safetensors), got '{place}'. Download "
                         "one, such as google/vit-base-patch16-224-in21k.")  # fmt: skip
    if in_shape[0] != 3:
        raise InputError(f"a pretrained ViT takes color images, got {in_shape[0]} channel(s). Set data.shape.")
    try:
        from transformers import ViTConfig, ViTModel
    except ImportError:
        raise MissingExtraError("a pretrained ViT", extra="transformers") from None
    config = ViTConfig.from_pretrained(
        place, hidden_dropout_prob=dropout, attention_probs_dropout_prob=0.0, local_files_only=True
    )
    body = ViTModel.from_pretrained(place, config=config, add_pooling_layer=False, local_files_only=True)
    return PretrainedViT(body.to(torch.float32), classes, dropout)
