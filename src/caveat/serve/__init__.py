"""The service: verdicts of a guard over HTTP, with an audit trail and a live page (extra ``serve``)."""

from caveat.errors import MissingExtraError

try:
    import fastapi as _fastapi  # noqa: F401
    import orjson as _orjson  # noqa: F401
    import prometheus_client as _prometheus  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError:
    raise MissingExtraError("caveat.serve", extra="serve") from None

from caveat.serve.app import create_app
from caveat.serve.audit import open_store
from caveat.serve.audit.export import export_trail
from caveat.serve.audit.replay import replay_trail
from caveat.serve.audit.verify import verify_trail
from caveat.serve.engine import Engine
from caveat.serve.keys import Keys
from caveat.serve.model import Model
from caveat.serve.run import run
from caveat.serve.settings import Limits

__all__ = [
    "Engine", "Keys", "Limits", "Model", "create_app", "export_trail", "open_store", "replay_trail", "run",
    "verify_trail",
]  # fmt: skip
