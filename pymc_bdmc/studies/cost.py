"""Read what a call of `sample_bdmc` on the real data cost."""

import xarray as xr

__all__ = ["cost_of_call"]


def cost_of_call(dt: xr.DataTree) -> tuple[int, float]:
    """Return gradient evaluations and seconds of a call, with its preparation."""
    pilots = sum(int(n) for name, n in dt.attrs.items() if str(name).startswith("gradients_"))
    seconds = dt.attrs["sampling_time"] + dt.attrs["preparation_time"]
    return int(dt["real"].attrs["gradient_evaluations"]) + pilots, float(seconds)
