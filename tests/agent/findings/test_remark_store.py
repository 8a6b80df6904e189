"""What people said survives, ends when they said so, and a file that is spoilt is told."""

import stat

import msgspec
import pytest

from gpudiag.agent.findings.remark_store import Remarks
from gpudiag.agent.findings.remarks import Acknowledgement, Review, checked_cause
from gpudiag.probes.errors import GpudiagError, UsageError
from tests.agent.findings.test_store import finding

SAID = Acknowledgement(by="ann", at=100.0, until=200.0, reason="fan ordered")
VERDICT = Review(right=False, cause="power-brake", by="bob", at=150.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "remarks.db"


def test_an_acknowledgement_survives_a_restart_and_ends_in_time(path):
    Remarks(path).acknowledge(finding().id, SAID)
    again = Remarks(path)
    assert again.on([finding()], 199.0)[0].acknowledged == SAID
    assert again.on([finding()], 200.0)[0].acknowledged is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_speaks_of_this_finding_alone(path):
    remarks = Remarks(path)
    remarks.acknowledge(finding().id, SAID)
    other = msgspec.structs.replace(finding(), subject=(("uuid", "GPU-2"),))
    assert [f.acknowledged for f in remarks.on([other, finding()], 150.0)] == [None, SAID]


def test_what_is_over_is_nobodys_and_what_comes_back_is_still_somebodys(path):
    remarks = Remarks(path)
    remarks.acknowledge(finding().id, SAID)
    over, again = finding("resolved", resolved_at=120.0), finding(raised_at=130.0)
    assert [f.acknowledged for f in remarks.on([over, again], 150.0)] == [None, SAID]


def test_a_later_word_replaces_the_first_and_can_be_taken_back(path):
    remarks = Remarks(path)
    remarks.acknowledge(finding().id, SAID)
    longer = msgspec.structs.replace(SAID, until=900.0, by="bob")
    remarks.acknowledge(finding().id, longer)
    assert remarks.acknowledgement(finding().id, 300.0) == longer
    assert remarks.withdraw(finding().id, 300.0)
    assert not remarks.withdraw(finding().id, 300.0)
    assert Remarks(path).acknowledgement(finding().id, 300.0) is None


def test_a_verdict_belongs_to_the_time_it_fired(path):
    Remarks(path).review(finding(), VERDICT)
    same, later = finding("resolved", resolved_at=20.0), finding(raised_at=500.0)
    assert [f.review for f in Remarks(path).on([same, later], 600.0)] == [VERDICT, None]


def test_a_spoilt_file_is_told_and_takes_nothing(path):
    path.parent.mkdir()
    path.write_bytes(b"no database" * 500)
    remarks = Remarks(path)
    assert str(path) in remarks.trouble
    with pytest.raises(GpudiagError, match="move the file away"):
        remarks.acknowledge(finding().id, SAID)
    assert remarks.acknowledgement(finding().id, 150.0) is None


def test_what_the_disk_refused_is_not_held_either(path):
    remarks = Remarks(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(GpudiagError, match="cannot keep it"):
        remarks.acknowledge(finding().id, SAID)
    assert remarks.acknowledgement(finding().id, 150.0) is None


@pytest.mark.parametrize("cause", ["", "undetermined", "slow-worker"])
def test_a_documented_cause_is_taken(cause):
    assert checked_cause("straggler", cause) == cause


def test_another_symptoms_cause_is_refused():
    with pytest.raises(UsageError, match="no documented cause of straggler: gpu-throttled"):
        checked_cause("straggler", "fragmentation")
