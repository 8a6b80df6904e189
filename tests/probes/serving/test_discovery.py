"""Servers that nobody named, found by what listens."""

from __future__ import annotations

from pathlib import Path

from gpudiag.probes.serving.discovery import TRIES, Discovery, Listener, listeners
from tests.modelserver import model_server, send

VLLM = (Path(__file__).parent / "pages" / "vllm-0.33.txt").read_text()
HEAD = "  sl  local_address rem_address   st queues tr tm->when retrnsmt uid timeout inode\n"


def proc(folder, *ports, inode=7, state="0A", ephemeral=""):
    (folder / "net").mkdir(exist_ok=True)
    lines = [
        f" 0: 0100007F:{port:04X} 00000000:0000 {state} 0:0 00:0 0 0 0 {inode} 1\n"
        for port in ports
    ]
    (folder / "net" / "tcp").write_text(HEAD + "".join(lines))
    if ephemeral:
        (folder / "sys/net/ipv4").mkdir(parents=True, exist_ok=True)
        (folder / "sys/net/ipv4/ip_local_port_range").write_text(ephemeral)
    return folder


def port_of(server):
    return int(server.url.rpartition(":")[2])


def test_listening_ports_are_told(tmp_path):
    assert listeners(proc(tmp_path, 8080, 80)) == [Listener(80, "7"), Listener(8080, "7")]
    assert listeners(proc(tmp_path, 80, state="01")) == []


def test_ports_where_ranks_meet_are_left_alone(tmp_path):
    folder = proc(tmp_path, 8000, 40001, ephemeral="32768\t60999\n")
    assert [one.port for one in listeners(folder)] == [8000]


def test_without_proc_nothing_listens(tmp_path):
    assert listeners(tmp_path) == []


def test_a_server_of_the_pod_is_found_by_its_page(tmp_path):
    with model_server(metrics=VLLM) as at:
        port = port_of(at)
        find = Discovery(proc(tmp_path, port))
        (found,) = find()
        assert (found.name, found.engine) == (f"vllm-{port}", "vllm")
        assert list(find()) == [found]
    assert len(at.seen) == 1


def test_who_is_no_server_is_left_alone_until_another_listens_there(tmp_path):
    with model_server(metrics=lambda h: send(h, 404, "")) as at:
        find = Discovery(proc(tmp_path, port_of(at)))
        for _ in range(TRIES + 3):
            assert list(find()) == []
        assert len(at.seen) == TRIES
        proc(tmp_path, port_of(at), inode=8)
        list(find())
        assert len(at.seen) == TRIES + 1


def test_one_that_listens_no_more_is_not_found(tmp_path):
    with model_server(metrics=VLLM) as at:
        find = Discovery(proc(tmp_path, port_of(at)))
        assert list(find())
        proc(tmp_path)
        assert list(find()) == []
