"""Every plot draws what the result holds, on every backend."""

import numpy as np
import pytest
from arviz_plots import PlotCollection

import pymc_bdmc as bdmc

BACKENDS = ["matplotlib", "bokeh", "plotly"]


@pytest.fixture(autouse=True)
def close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def one_data_set(dt):
    return dt.isel(dataset=[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["kde", "hist", "ecdf"])
def test_sandwich_of_one_result(schools_result, backend, kind):
    pc = bdmc.plot_sandwich(one_data_set(schools_result), backend=backend, kind=kind)
    assert isinstance(pc, PlotCollection)
    assert pc.viz["bound"]["log_weight"].sizes == {"model": 1, "direction": 2}


def test_the_bounds_are_marked_at_the_means(schools_result):
    dt = one_data_set(schools_result)
    pc = bdmc.plot_sandwich(dt, backend="matplotlib")
    for name in ("forward", "reverse"):
        line = pc.viz["bound"]["log_weight"].sel(direction=name).item()
        assert line.get_xdata()[0] == pytest.approx(float(dt[name]["log_weight"].mean()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sandwich_against_temperatures(schools_result, backend):
    dts = [schools_result.isel(beta=slice(0, n)) for n in (11, 21, 31)]
    pc = bdmc.plot_sandwich({"a": dts, "b": dts[:2]}, backend=backend)
    assert pc.viz["band"]["log_weight"].sizes == {"model": 2, "direction": 2}


@pytest.mark.parametrize("backend", BACKENDS)
def test_hysteresis(schools_result, backend):
    pc = bdmc.plot_hysteresis({"one": schools_result, "two": schools_result}, backend=backend)
    assert pc.viz["path"]["log_likelihood"].sizes == {"model": 2, "direction": 2}


def test_hysteresis_draws_the_mean_path(schools_result):
    dt = one_data_set(schools_result)
    pc = bdmc.plot_hysteresis(dt, backend="matplotlib")
    line = pc.viz["path"]["log_likelihood"].sel(direction="reverse").item()
    np.testing.assert_allclose(line.get_xdata(), dt["reverse"]["beta"])
    np.testing.assert_allclose(line.get_ydata(), dt["reverse"]["log_likelihood_path"][0])


@pytest.mark.parametrize("plot", [bdmc.plot_sandwich, bdmc.plot_hysteresis])
def test_real_data_alone(schools_result, plot):
    dt = schools_result.copy()
    del dt["forward"], dt["reverse"]
    pc = plot(dt, backend="matplotlib")
    assert pc.aes["color"].sizes["direction"] == 1


@pytest.mark.parametrize("plot", [bdmc.plot_sandwich, bdmc.plot_hysteresis])
def test_options_reach_the_visuals(schools_result, plot):
    pc = plot(
        schools_result,
        backend="matplotlib",
        visuals={"xlabel": {"text": "mine"}, "legend": False, "title": False},
        figure_kwargs={"figsize": (4, 3)},
    )
    figure = pc.viz["figure"].item()
    assert figure.axes[0].get_xlabel() == "mine"
    assert not figure.legends
    assert tuple(figure.get_size_inches()) == (4, 3)
    with pytest.raises(ValueError, match="nonsense"):
        plot(schools_result, visuals={"nonsense": False})


def test_panels_may_differ_in_chains_and_schedule(schools_result):
    long, short = one_data_set(schools_result), one_data_set(schools_result).copy()
    for group in ("forward", "reverse"):
        short[group] = short[group].dataset.isel(chain=slice(3), beta=slice(0, 20))
    pc = bdmc.plot_sandwich({"long": long, "short": short}, backend="matplotlib")
    line = pc.viz["bound"]["log_weight"].sel(direction="forward", model="short").item()
    mean = float(short["forward"]["log_weight"].mean())
    assert line.get_xdata()[0] == pytest.approx(mean)
    pc = bdmc.plot_hysteresis({"long": long, "short": short}, backend="matplotlib")
    for model, n in (("long", 31), ("short", 20)):
        line = pc.viz["path"]["log_likelihood"].sel(direction="forward", model=model).item()
        assert np.isfinite(line.get_ydata()[:n]).all()
