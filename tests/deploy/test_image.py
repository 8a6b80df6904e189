"""The image, as far as its file tells: no daemon here builds it."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires

import click
import pytest

from gpudiag.agent import cli
from gpudiag.agent.state import state_folder
from tests.deploy.kustomized import DEPLOY, ROOT
from tests.deploy.pods import SIDECARS, agent, pod

FILE = DEPLOY / "Dockerfile"


def instructions():
    """(INSTRUCTION, rest) of each line that is no comment, continued lines joined."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def last(name):
    return next(rest for word, rest in reversed(instructions()) if word == name)


def environment():
    return dict(part.split("=", 1) for part in shlex.split(last("ENV")))


def copied():
    """What is taken from the checkout."""
    lines = [rest for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    return {path for line in lines for path in line.split()[:-1]}


def test_it_copies_what_the_package_is_made_of():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tops = {name.split(".")[1] for name in project["tool"]["setuptools"]["packages"]}
    assert copied() == tops | {"pyproject.toml", "README.md", "LICENSE"}


def test_what_it_copies_builds_into_a_wheel_with_every_package(tmp_path):
    source, wheels = tmp_path / "src", tmp_path / "wheels"
    source.mkdir()
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name)
        else:
            shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    build += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(source)]
    subprocess.run(build, check=True, timeout=600)
    (wheel,) = wheels.iterdir()
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package in project["tool"]["setuptools"]["packages"]:
        assert f"{package.replace('.', '/')}/" in listed


def test_it_brings_the_agent_and_no_torch():
    assert "'.[agent]'" in last("RUN") or any("'.[agent]'" in rest for _, rest in instructions())
    agents = [line for line in requires("gpudiag") or [] if 'extra == "agent"' in line]
    assert agents
    assert not any(line.startswith("torch") for line in agents)


def test_its_base_has_a_version_and_nothing_comes_from_an_address():
    words = {word for word, _ in instructions()}
    assert "ADD" not in words
    base = re.fullmatch(r"BASE=python:(\d+)\.(\d+)[\w.-]*", last("ARG"))
    assert base
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    least = re.search(r"(\d+)\.(\d+)", project["requires-python"])
    assert least
    assert tuple(map(int, base.groups())) >= tuple(map(int, least.groups()))
    fetched = [rest for word, rest in instructions() if word == "RUN" and "://" in rest]
    assert not fetched


def test_it_runs_as_the_user_that_the_manifests_say():
    user, group = map(int, last("USER").split(":"))
    assert user != 0
    for name in SIDECARS:
        context = pod(name)["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == (user, group)
    after = [word for word, _ in instructions()]
    assert "RUN" not in after[after.index("USER") :]


def test_it_starts_the_agent_where_the_manifests_keep_its_state():
    line = json.loads(last("ENTRYPOINT")) + json.loads(last("CMD"))
    assert line[0] == "gpudiag"
    assert isinstance(cli.root, click.Group)
    assert line[1] in cli.root.list_commands(click.Context(cli.root))
    folder = str(state_folder(environment(), 10001))
    assert folder in {mount["mountPath"] for mount in agent("sidecar-vllm")["volumeMounts"]}


@pytest.mark.parametrize("name", SIDECARS)
def test_its_port_is_that_of_the_manifests(name):
    assert last("EXPOSE") == str(agent(name)["ports"][0]["containerPort"])
