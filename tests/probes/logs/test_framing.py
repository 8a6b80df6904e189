from gpudiag.probes.logs.framing import MAX_JOINED, Framing, Unframed

AT = "2026-05-04T10:00:00.123456789Z"
SECONDS = 1777888800.123456


def cri(flag: str, text: str, stream: str = "stdout") -> bytes:
    return f"{AT} {stream} {flag} {text}".encode()


def docker(text: str) -> bytes:
    return f'{{"log":"{text}","stream":"stderr","time":"{AT}"}}'.encode()


def test_a_cri_line_is_unwrapped_with_its_time() -> None:
    assert Framing().whole(cri("F", "hello")) == Unframed(b"hello", SECONDS)


def test_parts_are_joined_by_stream() -> None:
    framing = Framing()
    assert framing.whole(cri("P", "hel")) is None
    assert framing.whole(cri("F", "other", "stderr")) == Unframed(b"other", SECONDS)
    assert framing.whole(cri("F", "lo")) == Unframed(b"hello", SECONDS)


def test_an_empty_cri_line() -> None:
    assert Framing().whole(f"{AT} stdout F ".encode()) == Unframed(b"", SECONDS)


def test_docker_lines_and_their_parts() -> None:
    framing = Framing()
    assert framing.whole(docker("hel")) is None
    assert framing.whole(docker("lo\\n")) == Unframed(b"hello", SECONDS)


def test_a_broken_docker_line_is_given_as_it_is() -> None:
    framing = Framing()
    framing.whole(docker("a\\n"))
    assert framing.whole(b'{"log":"cut') == Unframed(b'{"log":"cut')


def test_a_plain_log_is_left_alone() -> None:
    framing = Framing()
    assert framing.whole(b"hello") == Unframed(b"hello")
    assert framing.whole(cri("F", "told of")) == Unframed(cri("F", "told of"))


def test_parts_without_end_are_bounded() -> None:
    framing = Framing()
    for _ in range(20):
        framing.whole(cri("P", "x" * 10_000))
    found = framing.whole(cri("F", "end"))
    assert found is not None
    assert len(found.raw) == MAX_JOINED
