import pytest

from gpudiag.agent.state import claimed, prepared, state_folder
from gpudiag.probes.errors import GpudiagError


def test_the_folder_follows_the_user(tmp_path):
    assert str(state_folder({}, 0)) == "/var/lib/gpudiag"
    assert str(state_folder({"HOME": "/h"}, 1)) == "/h/.local/state/gpudiag"
    assert state_folder({"GPUDIAG_STATE_DIR": str(tmp_path)}, 0) == tmp_path


def test_a_second_agent_is_kept_off(tmp_path):
    claimed(prepared(tmp_path / "state"))
    with pytest.raises(GpudiagError, match="another agent uses the state folder"):
        claimed(tmp_path / "state")
