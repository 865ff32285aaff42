"""What all tests share: a folder of reference data, and results that are made once."""

import gc
import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import matplotlib
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.call.options import Options
from tests.models import eight_schools, interpreted

matplotlib.use("Agg")
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background


def pytest_collection_finish():
    """Look for garbage seldom, which takes an eighth of the time that compiling does."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Folder of published data, which lies beside the checkout if at all."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.exists():
        message = f"the reference data are not at {folder}"
        pytest.fail(message) if "NEED_DATA" in os.environ else pytest.skip(message)
    return folder


@pytest.fixture(scope="session")
def schools_result():
    """Chains forward and reverse on two data sets, and forward on the real data."""
    return pm.sample_bdmc(
        eight_schools(centred=False),
        chains=8,
        particles=1,
        temperatures=30,
        path="prior",
        schedule="sigmoid",
        simulate=bdmc.FromPrior(datasets=2),
        random_seed=1,
        cores=1,
        progressbar=False,
    )


@pytest.fixture(scope="module")
def quickly_compiled():
    """Densities of this module are interpreted: they take longer to compile than to run."""
    with interpreted():
        yield


@pytest.fixture
def annealed(monkeypatch):
    """Calls with open options anneal, as they do where the posterior is far from a normal one."""
    monkeypatch.setattr(Options, "may_skip_annealing", False)


@pytest.fixture
def ctrl_c_after():
    """Context in which Ctrl-C is pressed after so many seconds of work, on however busy a machine.

    What must obey it is endless, so that a test that ends has shown it.
    """

    @contextmanager
    def pressed(seconds):
        end, left = time.process_time() + seconds, threading.Event()

        def press():
            while not left.wait(0.01):
                if time.process_time() > end:
                    return signal.raise_signal(signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        try:
            yield
        finally:
            left.set()
            thread.join()

    return pressed
