from gpudiag.probes.logs import sieve
from gpudiag.probes.logs.sieve import Sieve


def test_known_words_pass_and_others_do_not() -> None:
    one = Sieve()
    assert one.passes(b"KeyError: 'x'")
    assert not one.passes(b"step 12 of 300")
    assert not one.passes(b"step 13 of 300")


def test_a_shape_does_not_hide_a_number_that_matters() -> None:
    one = Sieve()
    assert not one.passes(b'"GET /v1" 200')
    assert one.passes(b'"GET /v1" 504')


def test_what_is_remembered_is_bounded() -> None:
    one = Sieve()
    for number in range(3 * sieve.MAX_SHAPES):
        one.passes("".join(chr(97 + int(d)) for d in str(number)).encode())
    assert len(one._dull) <= sieve.MAX_SHAPES
