"""What the overlays say exists in the product: configuration, paths, ports, commands."""

import glob
import re
from pathlib import PurePosixPath

import click
import pytest

from gpudiag.agent import cli
from gpudiag.agent.doctor.rights import Process
from gpudiag.probes.logs.places import CONTAINERS
from tests.deploy.kustomized import DEPLOY, OVERLAYS, kustomized, overlay
from tests.deploy.pods import (
    NODES,
    SIDECARS,
    agent,
    containers,
    mounts,
    pod,
    settings,
    template,
    variables,
    volume,
    workload,
)

every = pytest.mark.parametrize("name", OVERLAYS)
sidecars = pytest.mark.parametrize("name", SIDECARS)
nodes = pytest.mark.parametrize("name", NODES)


def parsed(line):
    """The arguments of a gpudiag command line; raises where it would be refused."""
    assert isinstance(cli.root, click.Group)
    with click.Context(cli.root, info_name="gpudiag") as context:
        name, command, rest = cli.root.resolve_command(context, list(line))
        assert command
        assert name
        return command.make_context(name, rest, parent=context).params


@every
def test_the_configuration_is_taken_and_changes_nothing_unasked(name):
    found = settings(name)
    assert found.node.role == ("sidecar" if name in SIDECARS else "node")
    assert found.actions.mode == "dry-run"


@every
def test_every_mount_has_its_volume_and_every_volume_a_mount(name):
    mounted = {volume for c in containers(pod(name)) for volume in mounts(c).values()}
    assert mounted == {one["name"] for one in pod(name)["volumes"]}


@every
def test_the_agent_starts_with_that_configuration(name):
    line = [part.replace("$(POD_IP)", "10.0.0.1") for part in agent(name)["args"]]
    told = parsed(line)
    listens = told["listen"] or settings(name).http.listen
    (port,) = agent(name)["ports"]
    assert listens.rpartition(":")[2] == str(port["containerPort"])
    assert not listens.startswith("127."), "nobody outside the container could scrape it"
    path = PurePosixPath(variables(agent(name))["GPUDIAG_CONFIG"])
    assert str(path.parent) in mounts(agent(name))
    assert path.name == "gpudiag.yaml"


@every
def test_what_the_agent_writes_is_a_volume(name):
    """The root is read-only: state, socket and scratch files need one."""
    environ = {k: v for k, v in variables(agent(name)).items() if v}
    socket = Process(environ, 0).socket_folder()
    paths = mounts(agent(name))
    assert {"/var/lib/gpudiag", str(socket), "/tmp"} <= paths.keys()
    assert agent(name)["securityContext"]["readOnlyRootFilesystem"] is True


@sidecars
def test_the_state_stays_below_the_limit_that_would_end_the_pod(name):
    recording = settings(name).recording
    limit = volume(name, "state")["emptyDir"]["sizeLimit"]
    assert limit.endswith("Gi")
    assert recording.max_size + recording.snapshots.max_size <= int(limit[:-2]) * 2**30 / 2


def test_training_and_agent_share_socket_and_group():
    name = "sidecar-training"
    ours, theirs = variables(agent(name)), variables(workload(name))
    path = PurePosixPath(ours["GPUDIAG_SOCKET"])
    assert theirs["GPUDIAG_SOCKET"] == str(path)
    assert mounts(agent(name))[str(path.parent)] == mounts(workload(name))[str(path.parent)]
    assert pod(name)["securityContext"]["fsGroup"] == 10001


def test_the_training_command_is_one_that_gpudiag_runs():
    command = workload("sidecar-training")["command"]
    assert command[0] == "gpudiag"
    told = parsed(command[1:])
    assert told["job"] == settings("sidecar-training").node.job
    assert "torchrun" in told["command_line"]


def test_the_agent_follows_what_torchrun_writes(tmp_path):
    command = workload("sidecar-training")["command"]
    folder = command[command.index("--log-dir") + 1]
    (pattern,) = settings("sidecar-training").probes.logs.files
    written = tmp_path / "none_x/attempt_0/0/stderr.log"
    written.parent.mkdir(parents=True)
    written.touch()
    assert glob.glob(pattern.replace(folder, str(tmp_path)), recursive=True) == [str(written)]
    assert mounts(agent("sidecar-training"))[folder] == mounts(workload("sidecar-training"))[folder]


@nodes
def test_the_node_agent_reads_the_containers_logs_and_what_they_link_to(name):
    assert settings(name).probes.logs.containers
    for path in (str(CONTAINERS), "/var/log/pods"):
        (mount,) = [m for m in agent(name)["volumeMounts"] if m["mountPath"] == path]
        assert mount["readOnly"] is True
        assert volume(name, mount["name"])["hostPath"]["path"] == path


@sidecars
def test_trouble_with_the_agent_does_not_take_the_workload_along(name):
    assert not {"readinessProbe", "startupProbe"} & agent(name).keys()


@every
def test_monitor_and_policy_select_the_pod_and_its_port(name):
    (monitor,) = kustomized(DEPLOY / "monitoring")
    (policy,) = [o for o in overlay(name) if o["metadata"]["name"] == "gpudiag-agent"]
    for selector in (monitor["spec"]["selector"], policy["spec"]["podSelector"]):
        (wanted,) = selector["matchExpressions"]
        assert wanted["key"] in template(name)["metadata"]["labels"]
    (port,) = agent(name)["ports"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == port["name"]
    assert {"port": port["containerPort"]} in policy["spec"]["ingress"][0]["ports"]


@sidecars
def test_a_selected_workload_keeps_its_own_traffic(name):
    """The agent's policy isolates the whole pod: without a second one ranks could not meet."""
    labels = template(name)["metadata"]["labels"].items()
    policies = [o["spec"] for o in overlay(name) if o["kind"] == "NetworkPolicy"]
    own = [p for p in policies if p["podSelector"].get("matchLabels", {}).items()]
    assert len(own) == 1
    assert own[0]["podSelector"]["matchLabels"].items() <= labels
    assert own[0]["ingress"]
    assert own[0]["egress"]


@every
def test_images_have_a_version(name):
    for container in containers(pod(name)):
        assert re.search(r":(?!latest)[\w.]+$", container["image"])
