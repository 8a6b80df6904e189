"""A real agent and servers whose answers become bad: from the answer to the finding."""

import stat
import threading

from tests.modelserver import DAYS, chat, hanging, model_server
from tests.running import SLOWER, wait_for

CHAT = "/v1/chat/completions"
QUICK = """
probes:
  canary:
    cadence: 1s
    requests_per_hour: 3600
    tokens_per_hour: 1000000
    servers:
      - {{name: s, url: "{url}", api: {api}, model: m, timeout: 2s, api_key: $CANARY_KEY}}
rules:
  output-quality-abnormal: {{thresholds: {{lasting: 3s}}}}
  not-ready: {{thresholds: {{lasting: 3s}}}}
"""


def config(server, api="openai-chat"):
    return QUICK.format(url=server.url, api=api)


def learned(agent):
    return wait_for(lambda: agent.metric("gpudiag_canary_similarity_ratio", server="s"))


def test_answers_that_become_garbage(start, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "s3cret")
    with model_server(v1__chat__completions=chat(DAYS, "m")) as server:
        agent = start(config=config(server))
        assert learned(agent) == [1.0]
        assert not agent.firing("output-quality-abnormal")
        server.answers[CHAT] = chat("!" * 24, "m")
        (finding,) = wait_for(lambda: agent.firing("output-quality-abnormal"), seconds=30)
        assert server.seen[-1].headers["Authorization"] == "Bearer s3cret"
    assert (finding["cause"], finding["subject"]) == ("numeric-corruption", {"server": "s"})
    assert "same token" in finding["summary"]
    assert "s3cret" not in agent.log() + agent.get("/api/v1/findings") + agent.get("/metrics")
    (file,) = (agent.folder / "state/canary/baselines").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_server_that_hangs_and_the_agent_ends_all_the_same(start, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "s3cret")
    over = threading.Event()
    with model_server(embed=[[0.1, 0.2]]) as server:
        agent = start(config=config(server, "tei-embed"))
        assert learned(agent) == [1.0]
        server.answers["/embed"] = hanging(over)
        (finding,) = wait_for(lambda: agent.firing("not-ready"), seconds=30)
        assert (finding["cause"], finding["subject"]) == ("canary-failed", {"server": "s"})
        assert not agent.firing("output-quality-abnormal")
        assert agent.metric("gpudiag_canary_similarity_ratio") == []
        wait_for(lambda: agent.metric("gpudiag_canary_requests_total", outcome="timeout")[0] >= 2)
        assert agent.stop() < 5 * SLOWER
        over.set()
