"""What the service is shipped with holds together: manifests, the compose file, the image."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
KUSTOMIZED: list[str] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
COMPOSED: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PROMETHEUS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def manifests() -> list[dict[str, Any]]:
    return [each for name in KUSTOMIZED for each in yaml.safe_load_all((FOLDER / name).read_text())]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests() if each["kind"] == kind]


def settings() -> dict[str, str]:
    [found] = of_kind("ConfigMap")
    return found["data"]


def names_of_settings() -> set[str]:
    return {f"SIGNOFF_{name.upper()}" for name in Settings.model_fields} | {"DATABASE_URL"}


def containers() -> Iterator[dict[str, Any]]:
    for each in (*of_kind("Deployment"), *of_kind("Job")):
        yield from each["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize("manifest", manifests(), ids=lambda each: each["kind"])
def test_every_manifest_fits_the_schema_of_its_kind(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_all_manifests_are_taken_up() -> None:
    assert {each.name for each in FOLDER.glob("*.yaml")} == {*KUSTOMIZED, "kustomization.yaml"}


def test_settings_that_are_shipped_are_settings() -> None:
    shared = COMPOSED["x-signoff"]["environment"]
    assert {*settings(), *shared} <= names_of_settings()


def test_pods_are_given_longer_than_they_drain() -> None:
    drains = float(settings()["SIGNOFF_DRAIN_SECONDS"])
    assert drains == Settings.model_fields["drain_seconds"].default
    for each in of_kind("Deployment"):
        assert each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= drains + 10
    assert float(COMPOSED["services"]["worker"]["stop_grace_period"].strip("s")) >= drains + 10


def test_pods_are_probed_where_they_answer_and_are_no_root() -> None:
    for each in of_kind("Deployment"):
        [container] = each["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports["metrics"] == int(settings()["SIGNOFF_METRICS_PORT"])
        probed = {name: container[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness")}
        assert probed["liveness"] == {"path": "/livez", "port": "metrics"}
        assert probed["readiness"] == {"path": "/readyz", "port": "metrics"}
    for each in containers():
        assert each["securityContext"]["allowPrivilegeEscalation"] is False
        assert each["args"][0] == "signoff"


def test_some_of_every_part_stay_while_nodes_are_emptied() -> None:
    parts = [each["spec"]["selector"] for each in of_kind("Deployment")]
    assert [each["spec"]["selector"] for each in of_kind("PodDisruptionBudget")] == parts
    for each in of_kind("Deployment"):
        assert each["spec"]["replicas"] > 1


def test_prometheus_scrapes_every_process_of_the_compose_file() -> None:
    [job] = PROMETHEUS["scrape_configs"]
    [found] = job["dns_sd_configs"]
    processes = {
        name
        for name, each in COMPOSED["services"].items()
        if each.get("command", [""])[0] == "signoff" and each.get("restart") != "on-failure"
    }
    assert set(found["names"]) == processes
    assert str(found["port"]) == COMPOSED["x-signoff"]["environment"]["SIGNOFF_METRICS_PORT"]
    for name in PROMETHEUS["rule_files"]:
        assert (ROOT / "deploy/prometheus" / name).is_file()


def test_what_the_compose_file_mounts_and_waits_for_is_there() -> None:
    for each in COMPOSED["services"].values():
        assert set(each.get("depends_on", ())) <= set(COMPOSED["services"])
        for mounted in each.get("volumes", ()):
            source = mounted.partition(":")[0]
            is_there = (
                (ROOT / source).exists() if source[0] == "." else source in COMPOSED["volumes"]
            )
            assert is_there, mounted
        for port in each.get("ports", ()):
            assert port.startswith("127.0.0.1:"), port


def test_the_image_runs_without_root_and_has_only_what_is_there() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert "USER signoff" in last
    assert "--uid 10001" in last
    assert "HEALTHCHECK" in last
    for line in DOCKERFILE.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
