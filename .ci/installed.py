"""Check what a user has after `pip install pymc-bdmc`: the files, and the README's example."""

import importlib.metadata
import importlib.util
import re
import sys
import tempfile
from pathlib import Path

import xarray as xr

import pymc_bdmc

README = Path(__file__).parents[1] / "README.md"


def check_files() -> None:
    """The package, typed, its pytest plugin and its license are installed, and nothing else."""
    package = importlib.metadata.distribution("pymc-bdmc")
    metadata = f"pymc_bdmc-{package.version}.dist-info"
    files = {file.as_posix() for file in package.files if "__pycache__" not in file.parts}
    assert {file.split("/")[0] for file in files} == {"pymc_bdmc", "pytest_bdmc.py", metadata}
    assert {"pymc_bdmc/py.typed", f"{metadata}/licenses/LICENSE"} <= files
    (plugin,) = package.entry_points.select(group="pytest11")
    assert importlib.util.find_spec(plugin.value)


def check_readme() -> None:
    """The first example runs, and its result can be saved."""
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    exec(example, namespace := {})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.nc"
        namespace["dt"].to_netcdf(file)
        with xr.open_datatree(file) as saved:
            xr.testing.assert_equal(namespace["dt"], saved)


if __name__ == "__main__":
    assert Path(sys.prefix) in Path(pymc_bdmc.__file__).parents, pymc_bdmc.__file__
    check_files()
    check_readme()
    print(f"pymc_bdmc {pymc_bdmc.__version__} works under Python {sys.version.split()[0]}")
