from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "disk-watermark"


def disk(left: str, *, size: str = "1e12", mountpoint: str = "/data") -> dict[str, str]:
    labels = f'{{mountpoint="{mountpoint}"}}'
    return {
        f"gpudiag_filesystem_size_bytes{labels}": f"{size}x300",
        f"gpudiag_filesystem_available_bytes{labels}": left,
    }


def severity(left: str, **kwargs: str) -> set[str | None]:
    return {d.severity for d in diagnoses(judge(SYMPTOM, disk(left, **kwargs))).values()}


def test_below_the_watermark_is_graver_the_less_is_left() -> None:
    assert severity("9e10x300") == {"info"}
    assert severity("6e10x300") == {"warning"}
    assert severity("3e10x300") == {"critical"}


def test_a_share_of_a_very_large_disk_is_room_enough() -> None:
    assert severity("7e12x300", size="1e14") == {"info"}


def test_a_steady_fall_is_told_before_the_watermark() -> None:
    said = diagnoses(judge(SYMPTOM, disk("3e11-5e8x300")))["/data"]
    assert "full in" in said.summary


def test_pruning_means_no_forecast() -> None:
    left = "3e11-2e9x60 3e11-2e9x60 3e11-2e9x60 3e11-2e9x60 3e11-2e9x55"
    assert judge(SYMPTOM, disk(left)) == [Healthy(subject(mountpoint="/data"))]


def test_what_is_full_by_design_is_not_judged() -> None:
    assert severity("0x300", mountpoint="/snap/core/1") == set()
    assert severity("1e6x300", size="5e8") == set()
    assert severity("0x300", size="6e9", mountpoint="/opt/image") == set()


def test_shared_memory_is_judged() -> None:
    assert severity("1e9x300", size="6.4e10", mountpoint="/dev/shm") == {"critical"}
