"""Files of the live page: address, file and media type. They hold no data, so that they are served without a key."""

from __future__ import annotations

__all__ = ["PAGES"]

PAGES = {
    "/": ("live.html", "text/html"),
    "/live.css": ("live.css", "text/css"),
    **{f"/{name}": (name, "text/javascript") for name in ("live.js", "show.js", "draw.js")},
    "/favicon.svg": ("favicon.svg", "image/svg+xml"),
}
