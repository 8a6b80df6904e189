"""The client against a server that speaks HTTPS and has bad days."""

from __future__ import annotations

import pytest

from gpudiag.agent.kubernetes.account import Account, account
from gpudiag.agent.kubernetes.client import Api
from gpudiag.agent.kubernetes.errors import NotReached, Refused, Unclear
from tests import certificates
from tests.kubeserver import TOKEN
from tests.running import free_port
from tests.tools import needs

pytestmark = needs("openssl", "openssl")

POD = "/api/v1/namespaces/ml/pods/chat-0"


@pytest.fixture
def pod(cluster):
    return cluster.objects.add(POD, {"kind": "Pod", "apiVersion": "v1"})


def test_an_object_is_read_with_the_token_of_the_file(cluster, pod):
    assert cluster.api().get(POD)["metadata"]["uid"] == pod["metadata"]["uid"]
    assert cluster.asked[0].headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_renewed_token_is_read_from_its_file(cluster, pod):
    api = cluster.api()
    api.get(POD)
    cluster.tokens = {"second"}
    (cluster.folder / "token").write_text("second")
    assert api.get(POD)
    assert [a.headers["Authorization"][7:] for a in cluster.asked] == [TOKEN, "second"]


def test_a_token_that_expires_under_way_is_read_again_once(cluster, pod):
    api, at = cluster.api(), cluster.folder / "token"
    told = iter([TOKEN, "second"])

    class Renewed(Account):
        def token(self):
            return next(told)

    api.account = Renewed("127.0.0.1", cluster.port, at.parent)
    cluster.tokens = {"second"}
    assert api.get(POD)
    assert len(cluster.asked) == 2


def test_a_token_that_stays_expired_is_a_refusal(cluster, pod):
    cluster.tokens = {"another"}
    with pytest.raises(Refused, match="401 Unauthorized"):
        cluster.api().get(POD)
    assert len(cluster.asked) == 1


@pytest.mark.parametrize("text", ["", "two words", "a\r\nX: b", "ключ"])
def test_what_is_no_token_is_not_sent_nor_quoted(cluster, text):
    (cluster.folder / "token").write_text(text)
    with pytest.raises(NotReached) as caught:
        cluster.api().get(POD)
    assert not text or text not in str(caught.value)
    assert not cluster.asked


def test_another_authority_is_not_trusted(cluster, tmp_path):
    other = certificates.authority(tmp_path / "other")
    (cluster.folder / "ca.crt").write_bytes(other.read_bytes())
    with pytest.raises(NotReached, match="does not vouch for"):
        cluster.api().get(POD)
    assert not cluster.asked


def test_a_spoiled_authority_is_told(cluster):
    (cluster.folder / "ca.crt").write_text("nonsense")
    with pytest.raises(NotReached, match=r"cannot use the authority in .*ca\.crt"):
        cluster.api().get(POD)


def test_nobody_there_is_not_reached(cluster):
    with pytest.raises(NotReached, match="was not reached"):
        Api(Account("127.0.0.1", free_port(), cluster.folder), 1.0).get(POD)


@pytest.mark.parametrize("fault", [500, 503, 504, "reset", "reset-after", "html"])
def test_what_may_have_been_done_is_unclear(cluster, pod, fault):
    cluster.faults.append(("chat-0", fault))
    with pytest.raises(Unclear) as caught:
        cluster.api().get(POD)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("fault", ["hang", "hang-after", "drip"])
def test_no_answer_in_time_is_unclear_and_holds_nobody(cluster, pod, fault):
    cluster.faults.append(("chat-0", fault))
    # The server's silence has no end of its own: only the limit ends it.
    with pytest.raises(Unclear):
        cluster.api(timeout=2.0).get(POD)


def test_a_refusal_tells_status_reason_and_when_to_ask_again(cluster, pod):
    cluster.objects.disruptions[POD] = 0
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "chat-0"}}
    with pytest.raises(Refused, match="disruption budget") as caught:
        cluster.api().send("POST", f"{POD}/eviction", body)
    assert (caught.value.status, caught.value.retry_after) == (429, 10.0)


def test_an_account_is_there_only_in_a_cluster_and_where_it_is_mounted(cluster, tmp_path):
    assert account({}, cluster.folder) is None
    assert account(cluster.environment, tmp_path / "none") is None
    found = account(cluster.environment, cluster.folder)
    assert found
    assert (found.host, found.port, found.namespace()) == ("127.0.0.1", cluster.port, "ml")
