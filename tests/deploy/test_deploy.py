"""The files of ``deploy/`` are well formed and say what the service really has: options, metrics, paths, users."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML comes with schemathesis")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def instructions():
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]


def options_of_serve():
    from typer.main import get_command

    from caveat.cli.app import app

    command = get_command(app).commands["serve"]
    return {name for parameter in command.params for name in parameter.opts}


def check_command(words):
    guard, *rest = words
    assert guard == "/guard"
    assert {word for word in rest if word.startswith("--")} <= options_of_serve()


def test_the_image_copies_what_exists_and_runs_without_privileges():
    steps = instructions()
    assert {word for word, _ in steps} <= {
        "FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "ENV", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT",
        "CMD",
    }  # fmt: skip
    for word, rest in steps:
        if word == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources)
    users = [rest for word, rest in steps if word == "USER"]
    assert users == ["10001"]
    commands = [json.loads(rest) for word, rest in steps if word in ("ENTRYPOINT", "CMD")]
    assert commands[0] == ["caveat", "serve"]
    check_command(commands[1])
    health = next(rest for word, rest in steps if word == "HEALTHCHECK")
    compile(json.loads(health[health.index("CMD") + 3 :])[2], "healthcheck", "exec")


def test_the_image_has_what_the_wheel_is_built_from():
    import tomllib

    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = {source for word, rest in instructions() if word == "COPY" for source in rest.split()}
    assert {source.split("/")[0] for source in wheel["only-include"]} <= copied


def test_compose_starts_the_service_with_postgresql():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    check_command(services["caveat"]["command"])
    assert services["caveat"]["command"][-1].startswith("postgresql://")
    assert (
        (DEPLOY / services["caveat"]["build"]["context"] / services["caveat"]["build"]["dockerfile"])
        .resolve()
        .is_file()
    )
    assert services["caveat"]["ports"] == ["127.0.0.1:8080:8080"]
    assert "healthcheck" in services["database"]


def test_kubernetes_manifest():
    service, stateful = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    assert (service["kind"], stateful["kind"]) == ("Service", "StatefulSet")
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    check_command(container["args"])
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")} == {
        "/healthz", "/readyz"}  # fmt: skip
    named = {
        volume["name"]
        for volume in (*pod["volumes"], *(v["metadata"] for v in stateful["spec"]["volumeClaimTemplates"]))
    }
    assert {mount["name"] for mount in container["volumeMounts"]} == named
    assert stateful["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]


def exported(folder):
    """Names of all metrics of the service, from the metrics themselves."""
    from prometheus_client.parser import text_string_to_metric_families
    from tests.serve.conftest import draw

    from caveat import Guard
    from caveat.serve import Engine, open_store
    from caveat.serve.metrics import Metrics, Requests

    guard, requests = Guard("energy", risk=0.2).calibrate(draw(600, seed=1)), Requests()
    requests.add("/v1/verdicts", 200, 0.01)
    engine = Engine(guard, open_store(str(folder / "audit.sqlite")))
    try:
        text = Metrics(engine, requests, lambda: 0).text().decode()
    finally:
        engine.close()
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


@pytest.mark.parametrize("name", ["grafana-dashboard.json", "prometheus-alerts.yaml"])
def test_dashboard_and_alerts_ask_for_metrics_that_exist(name, tmp_path):
    text = (DEPLOY / name).read_text()
    content = json.loads(text) if name.endswith("json") else yaml.safe_load(text)
    rules = (
        [target["expr"] for panel in content["panels"] for target in panel["targets"]]
        if name.endswith("json")
        else [rule["expr"] for group in content["groups"] for rule in group["rules"]]
    )
    asked = {metric for rule in rules for metric in re.findall(r"\bcaveat_\w+", rule)}
    assert asked
    assert asked <= exported(tmp_path)


def test_panels_do_not_overlap():
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_comments_name_files_that_exist():
    for path in DEPLOY.iterdir():
        if path.suffix == ".json":
            continue
        for word in re.findall(r"deploy/[\w.-]+", path.read_text()):
            assert (ROOT / word).exists(), f"{path.name} names {word}"
