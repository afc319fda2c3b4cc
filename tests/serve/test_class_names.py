"""The service says which classes its guard knows, and names them in every verdict."""

from __future__ import annotations

import asyncio

import httpx
from tests.serve.conftest import draw

from caveat import Guard, Outputs
from caveat.serve import Engine, create_app, open_store

NAMES = ("cat", "dog", "bee")


def test_names_are_answered_with_the_numbers(tmp_path):
    rows = draw(600, seed=1)
    guard = Guard("energy").calibrate(Outputs(logits=rows.logits, labels=rows.labels, class_names=NAMES))
    engine = Engine(guard, open_store(str(tmp_path / "audit.sqlite")))

    async def asked():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(engine)), base_url="http://localhost"
        ) as client:
            described = await client.get("/v1/guard")
            return described.json(), (
                await client.post("/v1/verdicts", json={"logits": rows.logits[:5].tolist()})
            ).json()

    try:
        described, answered = asyncio.run(asked())
        answer = answered["verdicts"]
        assert described["class_names"] == list(NAMES)
        assert [row["prediction_name"] for row in answer] == [NAMES[row["prediction"]] for row in answer]
        assert [row["set_names"] for row in answer] == [[NAMES[c] for c in row["set"]] for row in answer]
        accepted = next(row for row in answer if row["kind"] == "accept")
        assert accepted["reason"].endswith(f"Possible classes: {', '.join(accepted['set_names'])}.")
    finally:
        engine.close()
