"""From a finding to what its dashboard shows, without Grafana."""

from __future__ import annotations

import re
from html import unescape

import pytest

from gpudiag.agent import pages
from gpudiag.dashboards import registry
from tests.agent.exporters.client import Client

ALL = "/runbooks/pictures/"


def test_every_dashboard_has_a_section_and_a_picture_that_is_there(client: Client) -> None:
    html = client.get(ALL).text
    sources = re.findall(r'<img src="([^"]+)"', html)
    assert len(sources) == len(registry.UIDS)
    for uid in registry.UIDS:
        assert f'id="{registry.section(uid)}"' in html
    for source in sources:
        answer = client.get(ALL + source)
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG")


def test_a_finding_leads_to_its_dashboard_and_its_runbook_does_too(client: Client) -> None:
    link = f'href="{ALL}#node"'
    assert link in unescape(client.get("/").text)
    assert link in client.get("/runbooks/gpu-xid").text
    assert f'href="{ALL}#serving"' in client.get("/runbooks/serving-stalled").text


def test_the_list_of_runbooks_leads_to_the_pictures(client: Client) -> None:
    assert f'href="{ALL}"' in client.get("/runbooks/").text


@pytest.mark.parametrize("name", ["no.png", "README.md", "page.sh", "..%2Fgpu-xid.md", "."])
def test_nothing_else_of_the_folder_is_served(client: Client, name: str) -> None:
    assert client.get(ALL + name).status_code == 404
    assert pages.picture(name) is None


def test_a_link_of_the_pictures_page_leads_to_a_runbook(client: Client) -> None:
    found = set(re.findall(r'href="(/runbooks/[a-z-]+)"', client.get(ALL).text))
    assert len(found) > 30
    assert all(client.get(link).status_code == 200 for link in found)
