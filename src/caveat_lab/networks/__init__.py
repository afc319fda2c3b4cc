"""Networks of the papers and the ways to train them."""

from caveat.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("caveat_lab.networks", extra="torch") from error

from caveat_lab.networks import architectures
from caveat_lab.networks.training import fit_classifier, load_model

__all__ = ["architectures", "fit_classifier", "load_model"]
