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
            answered = (await client.post("/v1/verdicts", json={"logits": rows.logits[:5].tolist()})).json()
            keys = [row["id"] for row in answered["verdicts"]]
            sent = [[(keys[0], "dog")], [(keys[0], 1)], [(keys[1], "dog"), (keys[2], 0)], [(keys[3], "cow")],
                    [(keys[0], "cat")]]  # fmt: skip
            told = [await client.post("/v1/labels", json={"labels": [{"id": k, "label": c} for k, c in pairs]})
                    for pairs in sent]  # fmt: skip
            return described.json(), answered, told

    try:
        described, answered, told = asyncio.run(asked())
        # a name and its number are one label; a name that the guard does not know is refused, a changed label too
        assert [answer.status_code for answer in told] == [200, 200, 200, 422, 409]
        assert [answer.json().get("recorded") for answer in told[:3]] == [1, 0, 2]
        assert "cow" in told[3].json()["error"]
        assert engine.trail.store.labels_of([0, 1, 2]) == {0: 1, 1: 1, 2: 0}
        answer = answered["verdicts"]
        assert described["class_names"] == list(NAMES)
        assert [row["prediction_name"] for row in answer] == [NAMES[row["prediction"]] for row in answer]
        assert [row["set_names"] for row in answer] == [[NAMES[c] for c in row["set"]] for row in answer]
        accepted = next(row for row in answer if row["kind"] == "accept")
        assert accepted["reason"].endswith(f"Possible classes: {', '.join(accepted['set_names'])}.")
    finally:
        engine.close()
