"""Hashes by content: an object of a script's class is the same in every process."""

import pytest

from pymc_bdmc.density.identity import digest

SCRIPT = """
class Base:
    def half(self, x):
        return 0.5 * x

class System(Base):
    scale = 2.0
    def __init__(self, shift):
        self.shift = shift
    def step(self, x):
        return self.scale * self.half(x) + self.shift
"""


def made_in_a_script(source=SCRIPT, shift=1.0):
    """A new class each time, as in each process that runs the script."""
    names = {"__name__": "__main__"}
    exec(source, names)
    return names["System"](shift)


def test_the_same_script_makes_the_same_object():
    assert digest(made_in_a_script()) == digest(made_in_a_script())


@pytest.mark.parametrize(
    ("old", "new"),
    [("scale = 2.0", "scale = 3.0"), ("0.5 * x", "0.25 * x"), ("+ self.shift", "- self.shift")],
)
def test_another_script_makes_another_object(old, new):
    assert digest(made_in_a_script(SCRIPT.replace(old, new))) != digest(made_in_a_script())
    assert digest(made_in_a_script(shift=2.0)) != digest(made_in_a_script())
