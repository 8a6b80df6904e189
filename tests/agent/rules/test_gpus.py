"""What a GPU is called in a summary."""

from __future__ import annotations

import pytest

from gpudiag.agent.rules._gpus import title


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"gpu": "3", "uuid": "GPU-ab12cd34-5678"}, "GPU 3 (GPU-ab12cd34…)"),
        ({"gpu": "3", "uuid": "GPU-3"}, "GPU 3"),
        ({"gpu": "3", "uuid": "GPU-33"}, "GPU 3 (GPU-33)"),
        ({"uuid": "GPU-ab12cd34-5678"}, "GPU GPU-ab12cd34…"),
    ],
)
def test_a_gpu_is_named_by_its_number_and_its_uuid_once(labels: dict[str, str], name: str) -> None:
    assert title(labels) == name
