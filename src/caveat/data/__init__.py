"""Data that is here without a download, and strange versions of it."""

from caveat.data.digits import Images, digits, inverted, noise, occluded, rotated, shifted

__all__ = ["Images", "digits", "inverted", "noise", "occluded", "rotated", "shifted"]
