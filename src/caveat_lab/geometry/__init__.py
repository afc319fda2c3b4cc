"""Geometry: how collapsed a network's features are, and how far a data set lies from the training data."""

from caveat_lab.geometry.buckets import buckets
from caveat_lab.geometry.neural_collapse import NeuralCollapse, neural_collapse
from caveat_lab.geometry.proximity import Proximity, frechet, mmd, proximities, proximity

__all__ = ["NeuralCollapse", "Proximity", "buckets", "frechet", "mmd", "neural_collapse", "proximities", "proximity"]
