from gpudiag.agent.channel.outside import Outside


def test_the_difference_is_told_once_for_each_reading_of_the_driver():
    outside = Outside()
    assert outside.take(10.0, 4e9, (9.5, 5e9)) is None
    assert outside.take(11.0, 4e9, (10.5, 5e9)) == (10.5, 1e9)
    assert outside.take(12.0, 4e9, (10.5, 5e9)) is None
    assert outside.take(13.0, 4e9, (12.5, 6e9)) == (12.5, 2e9)


def test_nothing_is_told_of_a_moment_at_which_torch_took_more():
    outside = Outside()
    outside.take(10.0, 4e9, None)
    assert outside.take(11.0, 6e9, (10.5, 7e9)) is None
    assert outside.take(12.0, 6e9, (11.5, 7e9)) == (11.5, 1e9)


def test_less_than_torch_holds_is_no_difference():
    outside = Outside()
    outside.take(10.0, 4e9, None)
    assert outside.take(12.0, 4e9, (11.0, 3e9)) is None
    assert outside.take(13.0, 4e9, (12.0, float("nan"))) is None


def test_without_the_driver_there_is_none():
    outside = Outside()
    outside.take(10.0, 4e9, None)
    assert outside.take(11.0, 4e9, None) is None
