import pytest
from click.testing import CliRunner

from gpudiag.agent import pages
from gpudiag.agent.cli import root
from gpudiag.probes.errors import UsageError


def test_a_section_ends_where_the_next_begins():
    text = pages.section("gpu-xid", "xid-79")
    assert text.startswith("### xid-79")
    assert text.count("\n### ") == 0


def test_a_page_that_is_not_there_names_the_one_that_was_meant():
    with pytest.raises(UsageError, match="Did you mean 'thermal-throttle'"):
        pages.page("thermal-throtle")


def test_a_section_that_is_not_there_is_a_usage_error():
    with pytest.raises(UsageError, match="no section 'xid-999'"):
        pages.section("gpu-xid", "xid-999")


def test_an_xid_alone_opens_its_section():
    shown = CliRunner().invoke(root, ["runbook", "--plain", "xid-79"])
    assert shown.output.startswith("### xid-79")


def test_a_mistyped_command_names_the_one_that_was_meant():
    shown = CliRunner().invoke(root, ["statsu"])
    assert (shown.exit_code, "Did you mean 'status'" in shown.output) == (2, True)
