import stat

from gpudiag.probes.serving.canary_budget import Budget


def budget(tmp_path, requests=2, tokens=100):
    return Budget(tmp_path / "canary" / "budget.json", requests=requests, tokens=tokens)


def test_requests_of_an_hour_are_counted_per_server(tmp_path):
    one = budget(tmp_path)
    assert [one.take("a", 1, now) for now in (0.0, 60.0, 120.0)] == [True, True, False]
    assert one.take("b", 1, 120.0)
    assert one.take("a", 1, 3601.0)


def test_tokens_too(tmp_path):
    one = budget(tmp_path, requests=9)
    assert [one.take("a", 60, now) for now in (0.0, 60.0)] == [True, False]


def test_a_restart_forgets_nothing_and_nobody_else_reads_it(tmp_path):
    one = budget(tmp_path, requests=1)
    assert one.take("a", 1, 0.0)
    one.save()
    assert not budget(tmp_path, requests=1).take("a", 1, 1.0)
    assert stat.S_IMODE((tmp_path / "canary/budget.json").stat().st_mode) == 0o600


def test_a_damaged_file_is_none(tmp_path):
    (tmp_path / "canary").mkdir()
    (tmp_path / "canary/budget.json").write_text('{"a": [1')
    assert budget(tmp_path).take("a", 1, 0.0)
