"""Dumps as torch 2.13 wrote them over gloo (flight/make.py), and as NCCL writes them."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from gpudiag.agent.analysis import log_flight_causes
from gpudiag.agent.analysis.log_flight import Flight, judge
from gpudiag.agent.analysis.log_flight_dump import Dump, dump_of
from gpudiag.agent.analysis.log_flight_opening import looks_like_one, opened

HERE = Path(__file__).parent / "flight"


def real(mode: str) -> list[Dump]:
    paths = [path for path in sorted(HERE.glob(f"{mode}_*")) if path.is_file()]
    found = [opened(path, path.read_bytes()) for path in paths]
    return [dump for dump in found if dump]


def entry(sequence: int, **changes: Any) -> dict[str, Any]:
    return {
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "state": "completed",
        "time_created_ns": sequence * 10**9,
        "is_p2p": False,
        **changes,
    }


def dump(rank: int, *entries: dict[str, Any], world: int = 2, **changes: Any) -> Dump:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}}
    found = dump_of({"entries": list(entries), "pg_config": config, **changes}, rank)
    assert found
    return found


def stuck(sequence: int, **changes: Any) -> dict[str, Any]:
    return entry(sequence, state="started", **changes)


def only(*dumps: Dump) -> Flight:
    (found,) = judge(dumps)
    return found


def test_the_rank_that_never_entered_of_real_dumps() -> None:
    found = only(*real("missing"))
    assert (found.kind, found.ranks, found.waiting) == ("missing", (1,), (0, 2))
    assert (found.sequence, found.operation) == (4, "all_reduce")


def test_the_size_that_differs_in_real_json() -> None:
    found = only(*real("size"))
    assert (found.kind, found.ranks) == ("size", (1,))


def test_another_operation_in_real_json() -> None:
    found = only(*real("type"))
    assert (found.kind, found.ranks) == ("operation", (1,))
    assert found.detail == "broadcast where others entered all_reduce"


def test_operations_in_another_order() -> None:
    gather = {"profiling_name": "nccl:all_gather"}
    others = [dump(r, stuck(1), stuck(2, **gather), world=3) for r in (0, 2)]
    found = only(*others, dump(1, stuck(1, **gather), stuck(2), world=3))
    assert (found.kind, found.ranks) == ("order", (1,))


def test_a_type_that_differs_half_against_half_names_both() -> None:
    found = only(dump(0, stuck(1)), dump(1, stuck(1, input_dtypes=["Half"])))
    assert (found.kind, found.ranks) == ("type", (0, 1))


def test_all_entered_and_none_left() -> None:
    found = only(*(dump(r, entry(1), stuck(2)) for r in (0, 1)))
    assert (found.kind, found.sequence) == ("stuck", 2)


def test_a_dump_alone_says_whose_would_tell() -> None:
    found = only(dump(0, entry(1), stuck(2), world=3))
    assert (found.kind, found.unseen) == ("alone", (1, 2))


def test_all_completed_is_no_hang() -> None:
    assert judge([dump(0, entry(1), entry(2)), dump(1, entry(1))]) == []


def test_what_fell_out_of_the_ring_is_not_missing() -> None:
    assert judge([dump(0, entry(1), entry(2)), dump(1, entry(2))]) == []


def test_uneven_amounts_are_the_sense_of_some_collectives() -> None:
    uneven = {"profiling_name": "nccl:all_to_all"}
    dumps = [dump(r, entry(1, input_sizes=[[r]], **uneven)) for r in (0, 1)]
    assert judge(dumps) == []


def test_a_group_that_waits_for_one_who_waits_elsewhere_follows() -> None:
    tp = {"pg_id": 1, "process_group": ("1", "tp")}
    config = {"0": {"ranks": "[0, 1]"}, "1": {"ranks": "[1, 2]"}}
    rows = {0: [entry(1), stuck(2)], 1: [entry(1), stuck(9, **tp)], 2: [entry(8, **tp)]}
    dumps = [dump(rank, *row, pg_config=config) for rank, row in rows.items()]
    first, second = judge(dumps)
    assert (first.group, first.ranks, first.follows) == ("tp", (2,), False)
    assert (second.ranks, second.follows) == ((1,), True)


def point(way: str, own: int, peer: int, number: int = 1, **changes: Any) -> dict[str, Any]:
    arrow = "->" if way == "send" else "<-"
    name = f"nccl:{way} {own}{arrow}{peer}"
    told = {"is_p2p": True, "p2p_seq_id": number, "profiling_name": name, "state": "scheduled"}
    return entry(number, **told | changes)


def batch(number: int, state: str, *points: dict[str, Any]) -> list[dict[str, Any]]:
    """As batch_isend_irecv leaves it: only the entry that closes it has a state."""
    closing = point("send", 0, 0, number, profiling_name="nccl:coalesced", state=state)
    return [*points, closing]


def test_the_stage_at_which_a_pipeline_stands() -> None:
    found = only(
        dump(0, point("send", 0, 1, state="completed"), world=4),
        dump(1, world=4),
        dump(2, point("recv", 2, 1), world=4),
        dump(3, point("recv", 3, 2), world=4),
    )
    assert (found.kind, found.ranks, found.waiting) == ("missing", (1,), (2,))
    assert found.operation == "send to rank 2"
    (cause,) = log_flight_causes.causes([dump(1), dump(0, point("recv", 0, 1))])
    assert "rank 1 never entered send to rank 0, rank 0 waits in it" in cause.summary


def test_a_send_and_its_receive_that_both_wait_are_stuck() -> None:
    found = only(dump(0, point("send", 0, 1)), dump(1, point("recv", 1, 0)))
    assert (found.kind, found.ranks, found.waiting) == ("stuck", (), (0, 1))


def test_two_who_both_send_first_wait_for_each_other() -> None:
    found = only(dump(0, point("send", 0, 1)), dump(1, point("send", 1, 0)))
    assert (found.kind, found.ranks) == ("order", (0, 1))
    assert "rank 0 waits to send to rank 1; rank 1 waits to send to rank 0" in found.detail


def test_of_a_batch_the_entry_that_closes_it_tells() -> None:
    ended = batch(1, "completed", point("send", 0, 1), point("recv", 0, 1))
    assert judge([dump(0, *ended), dump(1)]) == []
    waits = batch(2, "started", point("send", 0, 1, 2), point("recv", 0, 1, 2))
    assert only(dump(0, *ended, *waits), dump(1)).ranks == (1,)


def test_a_peer_that_left_no_dump_is_asked_for() -> None:
    found = only(dump(0, point("recv", 0, 1)))
    assert (found.kind, found.unseen) == ("alone", (1,))


def test_a_stage_whose_peer_waits_in_a_collective_is_no_beginning() -> None:
    found = judge(
        [
            dump(0, stuck(1), world=3),
            dump(1, world=3),
            dump(2, stuck(1), point("recv", 2, 0), world=3),
        ]
    )
    assert [(one.kind, one.ranks) for one in found] == [("missing", (1,))]


def test_the_ranks_of_a_group_are_counted_within_it() -> None:
    config = {"7": {"name": "7", "desc": "pp", "ranks": "[4, 6]"}}
    of_group: dict[str, Any] = {"process_group": ("7", "pp"), "pg_id": 7}
    waits = dump(4, point("recv", 0, 1, **of_group), pg_config=config)
    assert only(waits, dump(6, entry(1, **of_group), pg_config=config)).ranks == (6,)


def test_the_status_counts_where_the_ring_is_empty() -> None:
    status = {"0": {"last_enqueued_collective": "7", "last_completed_collective": "6"}}
    behind = dump(1, entry(6), pg_status=status)
    assert behind.groups["0"].last == 7


def test_a_pickle_that_wants_to_run_something_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "run",))

    raw = pickle.dumps({"entries": [], "pg_config": Evil()})
    assert opened(Path("trace_0"), raw) is None
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "raw", [b"", b"\x80", b"{", b"[]", b'{"entries": 3, "pg_config": {}}', b"\x80\x02}q."]
)
def test_what_is_no_dump(raw: bytes) -> None:
    assert opened(Path("trace_0"), raw) is None


def test_odd_fields_are_passed_over() -> None:
    rows = [None, {}, {"collective_seq_id": "x"}, {"process_group": 7, "collective_seq_id": 1}]
    config = {"": {"ranks": "[0, oops"}}
    found = dump_of({"entries": rows, "pg_config": config, "pg_status": {"0": None}}, 0)
    assert found is not None
    assert judge([found]) == [] or judge([found])[0].sequence == 1


def test_a_dump_is_told_from_a_log_by_its_beginning() -> None:
    assert all(looks_like_one(path.read_bytes()[:4096]) for path in HERE.glob("*_[0-2]*"))
    assert not looks_like_one(b'{"log":"hello\\n"}')


def test_the_cause_names_the_rank_and_the_next_step() -> None:
    (found,) = log_flight_causes.causes(real("missing"))
    assert found.page == "training-interrupted#hung-collective"
    assert "rank 1 never entered all_reduce, ranks 0, 2 wait in it" in found.summary
    assert found.todo


@pytest.mark.parametrize("mode", ["missing", "size", "type"])
def test_half_a_dump_hurts_nobody(mode: str) -> None:
    for path in HERE.glob(f"{mode}_*"):
        raw = path.read_bytes()
        for end in range(0, len(raw), 7):
            assert opened(path, raw[:end]) is None
