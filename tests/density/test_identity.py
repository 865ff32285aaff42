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

system = System(1.0)
"""


def digest_of(source):
    """Digest of an object of a new class, as each process that runs the script makes it."""
    names = {"__name__": "__main__"}
    exec(source, names)
    return digest(names["system"])


@pytest.mark.parametrize(
    ("old", "new"),
    [("2.0", "3.0"), ("0.5 * x", "0.25 * x"), ("+ self.shift", "- self.shift"), ("(1.0)", "(2.0)")],
)
def test_the_same_script_alone_makes_the_same_object(old, new):
    assert digest_of(SCRIPT) == digest_of(SCRIPT)
    assert digest_of(SCRIPT.replace(old, new)) != digest_of(SCRIPT)
