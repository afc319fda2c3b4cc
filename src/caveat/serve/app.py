"""The HTTP application: routes of the service, thin; each reads a body, asks the engine and sends bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from caveat import __version__
from caveat.guard import Verdicts
from caveat.guard.facts import guard_facts
from caveat.serve import openapi
from caveat.serve.bodies import JSON, json_object, read_arrays
from caveat.serve.engine import Engine
from caveat.serve.gate import FAILED, OPEN, Application, Body, Gate, Message, Receive, Send
from caveat.serve.inference import add_inference_routes
from caveat.serve.keys import Keys, Pace
from caveat.serve.metrics import Metrics, Requests
from caveat.serve.pages import PAGES
from caveat.serve.problems import Problem
from caveat.serve.settings import Limits
from caveat.serve.trail import RowIds

__all__ = ["create_app"]

_MOST_LABELS = 100_000


def create_app(
    engine: Engine, *, limits: Limits | None = None, keys: Keys | None = None, local_only: bool = False
) -> Application:
    """The service as an ASGI application; the engine is closed when it shuts down.

    Parameters
    ----------
    engine
        Gives the verdicts.
    limits
        What clients may send.
    keys
        Keys of which clients must send one; None: all may ask.
    local_only
        Answer only requests whose ``Host`` is this machine; see ``Gate``.

    Returns
    -------
    Application
        An ASGI application, for :func:`caveat.serve.run` or any ASGI server.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from caveat import Guard, Outputs
    >>> from caveat.serve import open_store
    >>> guard = Guard("energy", sets=None).calibrate(Outputs(logits=np.random.default_rng(0).normal(size=(300, 3))))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = Engine(guard, open_store(f"{folder}/audit.sqlite"))
    ...     app = create_app(engine, limits=Limits(rows=1000))
    ...     engine.close()
    >>> callable(app)
    True
    """
    limits = limits or Limits()
    bodies, requests = Body(limits), Requests()
    metrics = Metrics(engine, requests, lambda: bodies.held)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        engine.close()

    app = FastAPI(title="Caveat", version=__version__, description=openapi.DESCRIPTION, lifespan=life,
                  docs_url=None, redoc_url=None, redirect_slashes=False)  # fmt: skip
    if keys:
        openapi.require_key(app, OPEN)

    @app.post("/v1/verdicts", **openapi.verdicts(engine.inputs, limits.rows))
    async def verdicts(request: Request) -> Response:
        """Give a verdict on each row: accept, abstain or outlier. It is recorded before it is answered."""
        body = await bodies.read(request.headers, request.receive)
        try:
            engine.admit()
            try:
                media_type = request.headers.get("content-type", "")
                read = partial(read_arrays, body, media_type, field=engine.only_field, most=limits.body_bytes)
                return Response(await engine.verdicts(read, partial(_answer, request)), media_type=JSON)
            finally:
                engine.leave()
        finally:
            bodies.release(len(body))

    def _answer(request: Request, verdicts: Verdicts, ids: RowIds) -> bytes:
        request.scope["rows"] = len(verdicts)  # for the log
        return orjson.dumps({"guard": fingerprint, "verdicts": verdicts.rows(ids)})

    fingerprint = engine.guard.fingerprint
    facts = orjson.dumps(
        guard_facts(engine.guard) | {"name": engine.name, "version": __version__, "fields": engine.widths,
                                     "inputs": [tensor.to_dict() for tensor in engine.inputs],
                                     "model": engine.model_facts}
    )  # fmt: skip

    @app.get("/v1/guard", **openapi.GUARD)
    async def guard() -> Response:
        """Describe the guard: promises, thresholds, settings, data, fingerprint."""
        return Response(facts, media_type=JSON)

    classes = {name: number for number, name in enumerate(engine.guard.class_names_ or ())}

    @app.post("/v1/labels", **openapi.labels(engine.trail.n_classes, tuple(classes), _MOST_LABELS))
    async def labels(request: Request) -> Response:
        """Record true classes that came later, by the ids of the verdicts."""
        body = await bodies.read(request.headers, request.receive)
        try:
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
                raise Problem(415, f"labels are sent as {JSON}.")
            engine.admit()
            try:
                rows = await asyncio.to_thread(_labels, body, classes)
                counts = await engine.labels(rows)
            finally:
                engine.leave()
            request.scope["rows"] = len(rows)
            return Response(orjson.dumps(counts), media_type=JSON)
        finally:
            bodies.release(len(body))

    @app.get("/v1/live", **openapi.LIVE)
    async def live() -> Response:
        """Say what the page shows: counts, p-values, drift, live errors, last verdicts."""
        # in a thread, as it may have to wait until the watch has taken in what came since
        return Response(await asyncio.to_thread(lambda: orjson.dumps(engine.live_view())), media_type=JSON)

    @app.get("/healthz", **openapi.HEALTH)
    async def healthz() -> Response:
        """Say that the process answers."""
        return Response(b'{"status":"ok"}', media_type=JSON)

    @app.get("/readyz", **openapi.READY)
    async def readyz() -> Response:
        """Say whether verdicts can be given and recorded, and how much of the audit trail is verified."""
        if engine.failure:
            raise Problem(503, f"the audit trail cannot be written ({engine.failure}).")
        return Response(orjson.dumps({"status": "ready", "verified": engine.witness.verified}), media_type=JSON)

    @app.get("/metrics", **openapi.METRICS)
    async def prometheus() -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(await asyncio.to_thread(metrics.text), media_type="text/plain; version=0.0.4")

    add_inference_routes(app, engine, bodies, limits)

    for path, (name, media_type) in PAGES.items():
        content = (files("caveat.serve") / "static" / name).read_bytes()
        app.add_api_route(path, partial(_page, content, media_type), include_in_schema=False, name=name)

    @app.exception_handler(Problem)
    async def refused(_: Request, problem: Problem) -> Response:
        return _problem(problem)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        sentence = {
            404: "unknown address. See /openapi.json.",
            405: "this address does not take that method. See /openapi.json.",
        }.get(error.status_code)
        return _problem(Problem(error.status_code, sentence or str(error.detail), headers=error.headers))

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return _problem(FAILED)  # the gate logs the error

    direct = {
        ("POST", "/v1/verdicts"): _direct(app, "/v1/verdicts", {}),
        ("POST", f"/v2/models/{engine.name}/infer"): _direct(app, "/v2/models/{name}/infer", {"name": engine.name}),
    }
    return Gate(
        app, requests=requests, keys=keys or Keys(), pace=Pace(limits.rate), direct=direct, local_only=local_only
    )


def _direct(app: FastAPI, path: str, params: Mapping[str, str]) -> Application:
    """A route as an application of its own: the framework's search takes twice as long as what the route does."""
    route: Any = next(route for route in app.routes if getattr(route, "path", None) == path)

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        scope.update(route=route, path_params=params)
        try:
            response = await route.endpoint(Request(scope, receive))
        except Problem as problem:
            response = _problem(problem)
        await response(scope, receive, send)

    return answer


async def _page(content: bytes, media_type: str) -> Response:
    return Response(content, media_type=f"{media_type}; charset=utf-8")


def _problem(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, problem.headers, JSON)


def _labels(body: bytes, classes: Mapping[str, int]) -> dict[str, int]:
    """Id -> class number; a label may be the name of a class that the guard knows."""
    rows = json_object(body).get("labels")
    if not isinstance(rows, list) or not rows or len(rows) > _MOST_LABELS:
        raise Problem(422, f"labels must be a list of 1 to {_MOST_LABELS} objects with id and label.")
    labels: dict[str, int] = {}
    for row in rows:
        key, label = (row.get("id"), row.get("label")) if isinstance(row, dict) else (None, None)
        if isinstance(label, float) and label.is_integer():  # 3.0 is a whole number in JSON
            label = int(label)
        if isinstance(label, str) and classes:
            if label not in classes:
                raise Problem(422, f"the guard knows no class {label[:60]!r}. GET /v1/guard lists its class_names.")
            label = classes[label]
        if not isinstance(key, str) or type(label) is not int or not 0 <= label < 2**31:
            named = " or the name of a class" if classes else ""
            raise Problem(422, f"each label must have an id (text) and a label (a whole number from 0 on{named}).")
        if labels.setdefault(key, label) != label:
            raise Problem(409, f"the id {key[:60]!r} has two labels.")
    return labels
