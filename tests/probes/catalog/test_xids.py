import pytest

from gpudiag.probes import catalog

XIDS = catalog.xids()


def test_every_code_of_nvidias_catalogue_and_173_is_there() -> None:
    assert set(XIDS) == set(range(1, 174))


@pytest.mark.parametrize(
    ("code", "fault", "action", "severity"),
    [
        (13, "app", "restart_app", "warning"),
        (38, "firmware", "none", "info"),
        (43, "consequence", "none", "info"),
        (45, "consequence", "none", "info"),
        (48, "hardware", "reset_gpu", "critical"),
        (54, "power", "check_mechanicals", "critical"),
        (63, "hardware", "none", "info"),
        (74, "link", "decode", "critical"),
        (78, "driver", "update_software", "warning"),
        (79, "hardware", "reboot_node", "critical"),
        (94, "hardware", "restart_app", "warning"),
        (95, "hardware", "reset_gpu", "critical"),
        (106, "test", "none", "info"),
        (109, "app", "reset_gpu", "warning"),
        (119, "firmware", "reset_gpu", "critical"),
        (121, "link", "none", "info"),
        (138, "unknown", "contact_support", "warning"),
        (151, "security", "restart_vm", "warning"),
        (154, "consequence", "follow_154", "warning"),
    ],
)
def test_known_row(code: int, fault: str, action: str, severity: str) -> None:
    xid = XIDS[code]
    assert (xid.fault, xid.action, xid.severity) == (fault, action, severity)


def test_disputed_codes_say_why() -> None:
    disputed = (31, 32, 38, 44, 45, 63, 68, 69, 79, 94, 109, 121)
    assert [code for code in disputed if not XIDS[code].reason] == []


@pytest.mark.parametrize(
    ("branch", "codes"),
    [
        (565, {48, 62, 63, 64, 74, 79, 94, 95, 110, 120, 136, *range(144, 151), 155, 156}),
        (570, {109}),
        (575, {143, 160, 161}),
    ],
)
def test_linkage_with_154(branch: int, codes: set[int]) -> None:
    linked = {code for code, xid in XIDS.items() if xid.linked_154 == branch}
    assert linked - {158, 159} == codes


def test_154_follows_every_code_whose_verdict_it_carries() -> None:
    linked = {code for code, xid in XIDS.items() if xid.linked_154}
    assert set(XIDS[154].consequence_of) == linked


def test_only_a_harmless_code_calls_for_nothing() -> None:
    assert all(xid.severity != "critical" for xid in XIDS.values() if xid.action == "none")


@pytest.mark.parametrize("code", [43, 45])
def test_a_teardown_follows_the_real_errors(code: int) -> None:
    assert {13, 31, 48, 74, 79, 94, 95, 119} <= set(XIDS[code].consequence_of)
