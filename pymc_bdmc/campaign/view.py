"""The result in a store, which a later one replaces at once while others may read it."""

import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr

from pymc_bdmc.campaign.files import replace_file

_log = logging.getLogger("pymc.bdmc")

STRIDE = 100
"""Least pause between two results, as a multiple of the time that it takes to write one."""
PAUSE = 60.0
"""Seconds until a continued call replaces the result that is there."""

ROOT = "zarr.json"
"""File with the metadata of a group or an array."""
CODEC = {"name": "zstd", "configuration": {"level": 0, "checksum": True}}
"""The default codec with a checksum, so that a damaged chunk is an error."""
UNFINISHED = ".unfinished-"
"""Beginning of the names of folders in which a result is being written."""
_OTHER = {"/": ".", ".": "/"}


class View:
    """The groups of a zarr store, for `xarray.open_datatree`.

    Readers go by the metadata of the root, one file, which names the chunks of all groups. A new
    result is written beside the last one, its chunks named in the other of two ways (``c/0/0`` and
    ``c.0.0``), and then that file is replaced. So there is a whole result at any moment.

    Parameters
    ----------
    path : Path
        Of a directory, which becomes a zarr group with consolidated metadata.
    """

    def __init__(self, path: Path):
        self._path = path
        for left in path.glob(f"{UNFINISHED}*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        if not (path / ROOT).exists():
            self._clear()
        try:
            self._separator = _separator(path / ROOT)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            _log.warning(
                f"store: {path / ROOT} is damaged ({error!r}); the result is written anew from the "
                "runs, which are not touched."
            )
            self._clear()
        self._next = time.perf_counter() + (PAUSE if self._separator else 0.0)

    def _clear(self) -> None:
        """Show a group with nothing in it."""
        nothing = {"kind": "inline", "must_understand": False, "metadata": {}}
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        replace_file(
            self._path / ROOT, json.dumps(group | {"consolidated_metadata": nothing}).encode()
        )
        self._separator = None

    @property
    def is_due(self) -> bool:
        """Whether the pause since the last result was long enough."""
        return time.perf_counter() >= self._next

    def write(self, make: Callable[[], xr.DataTree]) -> None:
        """Replace the result by what ``make`` returns."""
        started = time.perf_counter()
        self._replace(make())
        now = time.perf_counter()
        self._next = now + STRIDE * (now - started)

    def _replace(self, dt: xr.DataTree) -> None:
        separator = _OTHER[self._separator or "/"]
        naming = {"name": "default", "configuration": {"separator": separator}}
        options = {
            "chunk_key_encoding": naming,
            "write_empty_chunks": True,
            "compressors": [CODEC],
        }
        encoding = {
            node.path: {name: options for name in node.to_dataset(inherit=False).variables}
            for node in dt.subtree
        }
        # Where this is interrupted, threads of zarr's may still be writing into the folder.
        with TemporaryDirectory(
            dir=self._path, prefix=UNFINISHED, ignore_cleanup_errors=True
        ) as folder:
            new = Path(folder)
            dt.to_zarr(new, encoding=encoding, consolidated=False)
            _consolidate(new)
            files = [file for file in new.rglob("*") if file.is_file()]
            for file in sorted(files, key=lambda file: file == new / ROOT):  # the root is the last
                target = self._path / file.relative_to(new)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, target)
            self._separator = separator


def _separator(root: Path) -> str | None:
    """Return the separator in the names of chunks that a root lists; None if there are none."""
    nodes = json.loads(root.read_text())["consolidated_metadata"]["metadata"]
    arrays = [node for node in nodes.values() if node["node_type"] == "array"]
    found = {node["chunk_key_encoding"]["configuration"]["separator"] for node in arrays}
    if not found <= _OTHER.keys() or len(found) > 1:
        raise ValueError(f"separators {found}")
    return next(iter(found), None)


def _consolidate(path: Path) -> None:
    """Gather all metadata in the root, as zarr does, but read them once instead of ten times."""
    root, *others = sorted(path.rglob(ROOT), key=lambda file: len(file.parts))
    nodes = {
        file.parent.relative_to(path).as_posix(): json.loads(file.read_text()) for file in others
    }
    whole = {"kind": "inline", "must_understand": False, "metadata": nodes}
    root.write_text(json.dumps(json.loads(root.read_text()) | {"consolidated_metadata": whole}))
