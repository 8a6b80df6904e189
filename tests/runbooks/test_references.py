"""What the pages tell people to type exists."""

import re

import pytest
from click.testing import CliRunner

from gpudiag.agent import pages
from gpudiag.agent.cli import root
from gpudiag.dashboards.registry import dashboard_of
from gpudiag.probes import catalog

COMMANDS = [
    (page, command)
    for page in pages.names()
    for command in re.findall(r"`gpudiag ([^`]+)`|^gpudiag (.+)$", pages.page(page), re.M)
]


@pytest.mark.parametrize(("page", "found"), COMMANDS)
def test_every_command_has_the_options_it_is_shown_with(page, found):
    words = (found[0] or found[1]).split()
    shown = CliRunner().invoke(root, [words[0], "--help"], standalone_mode=False)
    assert shown.exception is None, words
    for option in (
        word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2
    ):
        assert option in shown.output, (page, option)


@pytest.mark.parametrize("page", pages.names())
def test_every_page_it_points_to_exists(page):
    for reference in re.findall(r"gpudiag runbook ([a-z][\w#-]*)", pages.page(page)):
        name, _, cause = reference.partition("#")
        assert pages.section(name, cause) if cause else pages.page(name)


@pytest.mark.parametrize("page", pages.names())
def test_a_symptom_without_a_page_is_not_promised(page):
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", pages.page(page))) & set(catalog.symptoms())
    assert named <= set(pages.names())


@pytest.mark.parametrize("page", pages.names())
def test_it_shows_the_dashboard_with_its_figures(page):
    ((caption, picture),) = re.findall(r"!\[(.+?)\]\(pictures/(.+?)\)", pages.page(page))
    uid = dashboard_of(page)
    assert (picture, f"`{uid}`" in pages.page(page)) == (
        uid.removeprefix("gpudiag-") + ".png",
        True,
    )
    assert pages.picture(picture)
    # As `make pictures` describes what it drew.
    assert f"`{uid}`. {caption}\n" in pages.pictures()
