"""The systemd unit: systemd takes it, it gives the agent its rights and takes the rest."""

import configparser
import shutil
import subprocess

import pytest

from gpudiag.agent.channel.listening import socket_path
from gpudiag.agent.state import state_folder
from tests.deploy.kustomized import DEPLOY

# What the file itself says is tested everywhere: an image of Debian has no systemd.
systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
MOST = 40
"""Of systemd's own measure of exposure, in tenths: 10 is everything open, 5 and more is medium."""

HIDES = {"ProtectKernelLogs", "PrivateDevices", "ProtectClock", "DevicePolicy", "PrivateUsers"}
"""Settings under which the kernel log or the GPUs could not be opened."""


@pytest.fixture
def unit(tmp_path):
    """A copy whose program is on this machine."""
    text = (DEPLOY / "gpudiag.service").read_text()
    copy = tmp_path / "gpudiag.service"
    copy.write_text(text.replace("/opt/gpudiag/bin/gpudiag", "/bin/true"))
    return copy


def service():
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(DEPLOY / "gpudiag.service")
    return read["Service"]


def analyzed(*args):
    return subprocess.run(
        ["systemd-analyze", *args], check=False, capture_output=True, text=True, timeout=240
    )


@systemd
def test_systemd_takes_every_line(unit):
    found = analyzed("verify", str(unit))
    assert (found.returncode, found.stderr) == (0, "")


@systemd
def test_a_misspelt_line_is_seen(unit):
    unit.write_text(unit.read_text().replace("NoNewPrivileges", "NoNewPriviliges"))
    assert "NoNewPriviliges" in analyzed("verify", str(unit)).stderr


@systemd
def test_its_exposure_is_low(unit):
    found = analyzed("security", "--offline=yes", f"--threshold={MOST}", str(unit))
    assert found.returncode == 0, found.stdout


def test_it_gives_the_rights_of_the_table_and_hides_nothing_they_need():
    told = service()
    assert told["CapabilityBoundingSet"].split() == ["CAP_SYSLOG", "CAP_SYS_PTRACE"]
    assert not HIDES & told.keys()
    assert "User" not in told


def test_the_agent_may_write_its_state_and_its_socket():
    told = service()
    assert str(state_folder({}, 0)) == f"/var/lib/{told['StateDirectory']}"
    assert str(socket_path({}, 0).parent) == f"/run/{told['RuntimeDirectory']}"


def test_it_starts_what_the_readme_installs():
    readme = (DEPLOY / "README.md").read_text()
    program, command = service()["ExecStart"].split()
    assert program.rpartition("/")[0] in readme
    assert command == "agent"
    assert service()["Environment"].partition("=")[2] in readme
