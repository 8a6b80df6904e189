from gpudiag.agent.clock import Clock


class Hands:
    def __init__(self):
        self.wall, self.mono = 1000.0, 50.0

    def clock(self):
        return Clock(lambda: self.wall, lambda: self.mono)

    def pass_(self, seconds, jump=0.0):
        self.mono += seconds
        self.wall += seconds + jump


def test_it_follows_the_monotonic_clock():
    hands = Hands()
    clock = hands.clock()
    hands.pass_(10)
    assert (clock.now(), clock.jump()) == (1010.0, 0.0)


def test_a_jump_of_an_hour_is_told_once_and_then_followed():
    hands = Hands()
    clock = hands.clock()
    hands.pass_(10, jump=3600)
    assert clock.now() == 1010.0
    assert clock.jump() == 3600.0
    assert (clock.jump(), clock.now()) == (0.0, 4610.0)


def test_slow_drift_is_taken_up_each_minute_without_a_jump():
    hands = Hands()
    clock = hands.clock()
    hands.pass_(61, jump=0.5)
    assert clock.jump() == 0.0
    assert clock.now() == 1061.5
