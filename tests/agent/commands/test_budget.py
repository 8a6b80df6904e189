from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from gpudiag.agent.commands.budget import command
from gpudiag.probes.errors import UsageError
from tests.agent.analysis.budget import configs


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.LLAMA2_7B))
    return str(path)


def run(*words):
    return CliRunner().invoke(command, list(words), catch_exceptions=False)


def test_it_fits_and_says_what_is_left(config):
    done = run(config, "--serve", "--measured", "60GiB")
    assert done.exit_code == 0
    assert "It fits, with " in done.output
    assert "beside the estimate" in done.output


def test_it_does_not_fit_and_says_what_would(config):
    done = run(config, "--dp", "8")
    assert done.exit_code == 1
    assert "It does not fit" in done.output
    assert done.output.splitlines()[-1].endswith("fits")


def test_a_number_alone_cannot_tell():
    done = run("--parameters", "1e9")
    assert done.exit_code == 3
    assert "cannot tell" in done.output


def test_json_has_every_item(config):
    plain = json.loads(run(config, "--json").output)
    assert [item["name"] for item in plain["items"]][:2] == ["parameters", "gradients"]
    assert plain["fits"] is False
    assert plain["measured"] is None


def test_what_names_no_model_is_told(tmp_path):
    with pytest.raises(UsageError, match="--parameters"):
        run()
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(UsageError, match=r"no config\.json"):
        run(str(tmp_path / "x.json"))


def test_fsdp_is_the_third_stage(config):
    assert (
        run(config, "--dp", "8", "--fsdp").output == run(config, "--dp", "8", "--zero", "3").output
    )


def test_what_nothing_makes_fit_is_told(config):
    done = run(config, "--gpu-memory", "1GiB")
    assert done.exit_code == 1
    assert "No change known here makes it fit" in done.output


@pytest.mark.parametrize("count", ["nan", "inf", "-1", "0"])
def test_what_is_no_count_is_refused(count):
    with pytest.raises(UsageError, match="--parameters"):
        run("--parameters", count)
