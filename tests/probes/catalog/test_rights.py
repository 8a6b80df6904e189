from __future__ import annotations

from gpudiag.probes.catalog.rights import rights


def test_every_right_says_how_to_give_it_and_what_goes_blind() -> None:
    for right in rights().values():
        assert right.pod, right.id
        assert right.machine, right.id
        assert right.blind, right.id


def test_the_sidecar_wants_nothing_privileged() -> None:
    wanted = {right.id for right in rights().values() if "sidecar" in right.roles}
    host = {"kernel-log", "host-pids", "other-processes", "host-groups", "host-network"}
    assert wanted >= {"gpus", "state", "socket"}
    assert not wanted & host
