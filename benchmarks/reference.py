"""Gather models whose log ML is known, with its error and where it comes from, in one file.

Run as ``python benchmarks/reference.py [--docs]``; half a minute. It prints how many there are;
with ``--docs`` they become docs/reference.json, and the table of docs/reference.md. Answers to
models of this project are computed again. Those to published data are constants of the scripts
beside this one, or the best call in docs/tables/hard.csv, so that no data are needed.
"""

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator

import anchors
import hard
import numpy as np
import posteriordb_models
from adversaries import ADVERSARIES, Adversary
from common import DOCS, publish, table
from scipy.special import logsumexp

from pymc_bdmc.testsystems import (
    BimodalCauchy,
    BimodalGaussian,
    ConjugateRegression,
    UnidentifiedBinomial,
)

FILE = DOCS / "reference.json"
CLOSED, QUADRATURE, SAMPLED = "closed form", "quadrature", "importance sampling"

SYSTEMS = {
    "unidentified binomial, 50 of 100": UnidentifiedBinomial(100, 50),
    "unidentified binomial, 50000 of 100000": UnidentifiedBinomial(100_000, 50_000),
    "two normal modes": BimodalGaussian(),
    "two Cauchy modes": BimodalCauchy(),
    "linear regression, 5 of 20": ConjugateRegression.random(5, 20, np.random.default_rng(1)),
}
"""The systems of `pymc_bdmc.testsystems` that are models of data."""
UNIFORM = "p, q ~ Uniform(0, 1)"
LOGISTIC = "yᵢ ~ Bernoulli(logit⁻¹(a + b xᵢ))"
TEXTS = {
    "unidentified binomial": (UNIFORM, "y ~ Binomial(n, pq)"),
    "two normal modes": ("x ~ N(0, 100 I), d = 5", "0 ~ N(x − 10, I)/21 + 20 N(x + 10, I)/21"),
    "two Cauchy modes": (
        "xₖ ~ N(0, 100), k = 1 … 5",
        "0 ~ Πₖ Cauchy(xₖ − 10, 1)/21 + 20 Πₖ Cauchy(xₖ + 10, 1)/21",
    ),
    "linear regression": ("θ ~ N(0, I)", "y ~ N(Xθ, I); X in `covariates`"),
    "spike in slab": ("x ~ N(0, I)", "y ~ 0.4 N(x, 0.05² I) + 0.6 N(0, (1 + 0.05²) I)"),
    "tight scale": ("s ~ HalfCauchy(2), m ~ N(0, 10²)", "yᵢ ~ N(m, s²)"),
    "three normals": (
        "w ~ Dirichlet(1, 1, 1), vₖ ~ InverseGamma(3, 4), mₖ ~ N(20, 25 vₖ)",
        "yᵢ ~ Σₖ wₖ N(mₖ, vₖ)",
    ),
    "odd data": ("xₖ ~ N(0, 5²)", "yᵢₖ ~ t₄(xₖ, 1)"),
    "horseshoe": ("t ~ HalfCauchy(0.5), sᵢ ~ HalfCauchy(1), xᵢ ~ N(0, t² sᵢ²)", "yᵢ ~ N(xᵢ, 1)"),
    "stochastic volatility": (
        "s ~ HalfNormal(1), h₁ ~ N(0, 1), hₜ ~ N(hₜ₋₁, s²)", "yₜ ~ N(0, exp(hₜ))"
    ),
    "local linear trend": (
        "a, b, c ~ HalfNormal(1), u₁ ~ N(0, 5²), uₜ ~ N(uₜ₋₁, a²), v₁ ~ N(0, 1), vₜ ~ N(vₜ₋₁, b²)",
        "yₜ ~ N(uₜ + v₁ + … + vₜ₋₁, c²)",
    ),
    "capture-recapture": ("p, q ~ Uniform(0, 1), zᵢ ~ Bernoulli(p)", "yᵢ ~ Binomial(4, q zᵢ)"),
    "two changes": (
        "a, b ~ Exponential(rate 1/2), c uniform on 1 … n − 1",
        "yₜ ~ Poisson(a) for the first c, Poisson(b) for the others",
    ),
    "two modes": ("x ~ N(0, 25 I)", "y ~ 0.75 N(x, 0.3² I) + 0.25 N(−x, 0.3² I)"),
    "far tail of a Cauchy": ("xᵢ ~ Cauchy(0, 1)", "yᵢ ~ N(xᵢ, 1)"),
    "product of two chances": (UNIFORM, "y ~ Binomial(10000, pq)"),
    "eight schools": (
        "μ ~ N(0, 5²), τ ~ HalfCauchy(5), θⱼ ~ N(μ, τ²)",
        "yⱼ ~ N(θⱼ, sⱼ²), s = 15, 10, 16, 11, 9, 11, 10, 18",
    ),
    "torn location": ("x ~ N(0, 10²)", "yᵢ ~ Cauchy(x, 0.1)"),
    "funnel": ("s ~ N(0, 3²), xᵢ ~ N(0, exp(s))", "yᵢ ~ N(xᵢ, 1)"),
    "inflated zeros": (
        "k ~ Uniform(0, 1), r ~ Gamma(2, rate 0.2)", "yᵢ ~ k Poisson(r) + (1 − k) [0]"
    ),
    "parabola": ("a, b ~ N(0, 5²)", "yᵢ ~ N(a + b², 0.1²)"),
    "separated outcomes": ("a, b ~ N(0, 10²)", f"{LOGISTIC}, x = linspace(−2, 2, 12)"),
    "lost signs": ("xᵢ ~ N(0, 3²)", "yᵢ ~ N(|xᵢ|, 0.1²)"),
    "observed CAR": (
        "α ~ Uniform(0, 1)", "y ~ N(0, (2D − 2αW)⁻¹), W of neighbours on a line, D = diag(W 1)"
    ),
    "groups alike": ("μ ~ N(0, 10²), τ ~ HalfNormal(5), θⱼ ~ N(μ, τ²)", "yⱼ ~ N(θⱼ, s²)"),
    "correlated slopes": (
        "m ~ N(6, 1), s ~ HalfNormal(1), (aⱼ, bⱼ) ~ N(0, Σ), deviations ~ HalfNormal(1), "
        "correlation ~ LKJ(2)",
        "yⱼᵢ ~ N(m + aⱼ + bⱼ xᵢ, s²), x = linspace(−1, 1, 8)",
    ),
    "thin ridge": (
        "x, y ~ Uniform(−width, width)",
        "exp(−c(1 − x)² − 100c(y − x²)²), c = 1 for width 5 and 1/2 for width 10",
    ),
    "thinner ridge": ("x, y ~ Uniform(−10, 10)", "exp(−(1 − x)²/2 − 500(y − x²)²)"),
    "heavy tails": ("a, b ~ Cauchy(0, 2.5)", f"{LOGISTIC}, x = linspace(−2, 2, n)"),
    "conflict": ("m ~ t₃(0, 1), s ~ HalfNormal(5)", "yᵢ ~ N(m, s²)"),
    "errors in variables": (
        "b ~ N(0, 2²), s ~ HalfNormal(1), xᵢ ~ N(0, 1)", "zᵢ ~ N(xᵢ, 0.5²), yᵢ ~ N(b xᵢ, s²)"
    ),
    "two-way layout": (
        "m, aᵢ, bⱼ ~ N(0, 1000²), s ~ HalfNormal(0.01)", "yᵢⱼ ~ N(m + aᵢ + bⱼ, s²)"
    ),
    "effects with heavy noise": ("s ~ HalfNormal(1), xᵢ ~ N(0, s²)", "yᵢ ~ t₂(xᵢ, 0.25)"),
    "hinged effects": (
        "s ~ HalfNormal(5), xᵢ ~ N(2, s²)", "yᵢ ~ N(max(xᵢ, 0), 0.3²)"
    ),
    "one tone": (
        "f ~ Gamma(2, 2), a, b ~ N(0, 1)", "yᵢ ~ N(a sin f tᵢ + b cos f tᵢ, 0.5²)"
    ),
    "contaminated readings": (
        "m ~ N(0, 3²), s ~ HalfNormal(2), xⱼ ~ N(m, s²)", "yⱼₖ ~ 0.7 N(xⱼ, 0.2²) + 0.3 N(xⱼ, 6²)"
    ),
    "vague precisions": (
        "b, w ~ Gamma(0.001, 0.001), m ~ N(0, 1000²), xⱼ ~ N(m, 1/b)", "yⱼₖ ~ N(xⱼ, 1/w)"
    ),
    "vague rates": (
        "m ~ N(0, 1000²), xᵢ ~ Gamma(0.01, 0.01)", "yᵢ ~ Poisson(tᵢ xᵢ exp(m))"
    ),
    "two tones": (
        "f ~ Uniform(0.1, 3), a, b ~ N(0, 1)", "yᵢ ~ N(a cos f tᵢ + b sin f tᵢ, 1)"
    ),
    "shell": ("x ~ N(0, 10² I)", "y ~ (1 − q) N(x, I) + q N(x, 3² I), 0.2 a posteriori"),
    "neck": ("s ~ HalfNormal(2), xᵢ of the family, at 0 with scale s", "yᵢ ~ N(xᵢ, 1)"),
    "waves": ("m ~ N(0, 1), s ~ HalfNormal(2), xᵢ ~ N(m, s²)", "yᵢ ~ N(sin xᵢ, 0.2²)"),
    "narrow mode": ("x ~ N(0, I)", "y ~ 0.15 N(x, w² I) + 0.85 N(0, (1 + w²) I), w the width"),
    "misfit, crossing lines": (
        "a, b ~ N(0, 3²)", "yᵢ ~ t₄(a + b xᵢ, 0.3), x = linspace(−1, 1, 24)"
    ),
    "misfit, outliers": ("a, b ~ N(0, 3²)", "yᵢ ~ t₂(a, exp(b))"),
    "misfit, wrong link": ("a, b ~ N(0, 3²)", f"{LOGISTIC}, x = linspace(−2.5, 2.3, 40)"),
    "misfit, missing covariate": (
        "a, b ~ N(0, 3²)", "yᵢ ~ Poisson(exp(a + b xᵢ)), x = linspace(−1, 1, 30)"
    ),
    "misfit, three clusters": ("a, b ~ N(0, 3²)", "yᵢ ~ N(a, 1)/2 + N(b, 1)/2"),
    # Published data.
    "seeds": (
        "τ ~ Gamma(0.01, rate 0.01), a ~ N(0, 10² I₄), bⱼ ~ N(0, 1/τ)",
        "rⱼ ~ Binomial(nⱼ, logit⁻¹(a₁ + a₂ x₁ⱼ + a₃ x₂ⱼ + a₄ x₁ⱼ x₂ⱼ + bⱼ))",
    ),
    "German credit": ("w ~ N(0, 10² I₂₅)", "logistic; covariates over their deviations, and 1"),
    "German credit, flat prior": ("1 (improper)", "the same"),
    "sonar": ("w ~ N(0, I₆₁)", "logistic; standardised covariates, and 1"),
    "sonar, wide prior": (
        "wₖ ~ N(0, 5²), intercept ~ N(0, 20²)", "logistic; covariates with deviations of 1/2, and 1"
    ),
    "ionosphere": ("w ~ N(0, I₃₅)", "logistic; standardised covariates, and 1"),
    "pines": (
        "f ~ N(log 126 − 1.91/2, K), Kᵢⱼ = 1.91 exp(−33 |i − j|/40) on 40 × 40 cells",
        "exp(Σ fᵢ yᵢ − Σ exp(fᵢ)/1600), a Cox process without its constants",
    ),
    "EPRV3": (
        "offset ~ U(±1000), log(1 + jitter) ~ U(0, log 100); of a planet log P ~ U(log 1.25, "
        "log 10⁴), log(1 + K) ~ U(0, log 1000), e ~ Rayleigh(0.2) below 1, ω and M₀ ~ U(0, 2π)",
        "v ~ N(offset + Σ orbits, known covariance + jitter²)",
    ),
    "arK-arK": ("α, βₖ ~ N(0, 10²), σ ~ HalfCauchy(2.5)", "autoregression of order 5"),
    "sblri-blr": ("βₖ ~ N(0, 10²), σ ~ HalfNormal(10)", "y ~ N(Xβ, σ²)"),
    "diamonds-diamonds": (
        "bₖ ~ N(0, 1), a ~ t₃(8, 10), σ ~ half-t₃(10)", "y ~ N(a + Xb, σ²), X centred"
    ),
    "eight_schools-eight_schools_centered": ("as eight schools", "as eight schools"),
    "eight_schools-eight_schools_noncentered": ("as eight schools", "as eight schools"),
    "gp_pois_regr-gp_regr": (
        "ρ ~ Gamma(25, rate 4), α ~ HalfNormal(2), σ ~ HalfNormal(1)",
        "y ~ N(0, α² exp(−(xᵢ − xⱼ)²/2ρ²) + σ I)",
    ),
    "hudson_lynx_hare-lotka_volterra": (
        "θ ~ N((1, .05, 1, .05), diag(.5, .05, .5, .05)²) above 0, z₀ ~ LogNormal(log 10, 1), "
        "σ ~ LogNormal(−1, 1)",
        "y ~ LogNormal(log z(t), σ), z by Lotka and Volterra",
    ),
    "low_dim_gauss_mix-low_dim_gauss_mix": (
        "μₖ ~ N(0, 2²) in order, σₖ ~ HalfNormal(2), θ ~ Beta(5, 5)",
        "y ~ θ N(μ₁, σ₁²) + (1 − θ) N(μ₂, σ₂²)",
    ),
    "bball_drive_event_0-hmm_drive_0": (
        "rows ~ Dirichlet of the data, φ and λ ~ N((0, 3), I) in order and above 0",
        "two states, uniform at first; u ~ Exponential(φ), v ~ Exponential(λ)",
    ),
    "radiata pine": (
        "σ² ~ InverseGamma(3, 2·300²), (a, b) ~ N((3000, 185), σ² diag(1/0.06, 1/6))",
        "y ~ N(a + b (x − mean x), σ²)",
    ),
    **dict.fromkeys(
        ("radiata pine, x, independent priors", "radiata pine, z, independent priors"),
        (
            "σ² ~ InverseGamma(3, 2·300²), a ~ N(3000, 10⁶), b ~ N(185, 10⁴)",
            "y ~ N(a + b (x − mean x), σ²)",
        ),
    ),
    "pima": ("w ~ N(0, I/τ)", "logistic; NP, PGC, BMI, DP, and AGE in model 2; and 1"),
    "galaxies": (
        "m ~ N(20, 100), v ~ InverseGamma(3, 20), w ~ Dirichlet(1)", "y ~ Σ wₖ N(mₖ, vₖ)"
    ),
    "hierarchical normal": (
        "τ² ~ InverseGamma(1, 1), μ ~ N(0, 1) or 0, θᵢ ~ N(μ, τ²)", "yᵢ ~ N(θᵢ, 1)"
    ),
    "turtles": (
        "a, b ~ N(0, 10), uⱼ ~ N(0, s²) or 0, p(s²) = (1 + s²)⁻²",
        "probit; a + b weight + u of the clutch",
    ),
    "sleep": (
        "w ~ Gamma(10⁻⁴, rate 10⁻⁴), δ ~ Cauchy(0, 1/√2) or 0", "dᵢ ~ N(δ/√w, 1/w)"
    ),
}  # fmt: skip
"""Prior and likelihood by the name of the model, or by its beginning; variances in N."""
FORMULAS = (
    "spike in slab", "capture-recapture", "two changes", "two modes", "product of two chances",
    "lost signs", "shell", "narrow mode",
)  # fmt: skip
"""Adversaries whose log ML is a closed form or a finite sum."""
HARD: dict[str, tuple[str, float, float, str]] = {
    "seeds": ("Crowder (1978), 21 plates", -73.4075, 0.0019, QUADRATURE),
    "German credit": ("UCI Statlog, 1000 loans", -585.0981, 0.0007, SAMPLED),
    "German credit, flat prior": ("UCI Statlog, 1000 loans", -504.4864, 0.0007, SAMPLED),
    "sonar": ("UCI, 208 returns", -108.3880, 0.0017, SAMPLED),
}
"""Data, log ML, error and how it was got, independently of this package."""
MEASURED = {
    "sonar, wide prior": "UCI, 208 returns",
    "ionosphere": "UCI, 351 returns",
    "pines": "Møller, Syversveen and Waagepetersen (1998), 126 saplings",
    **{
        f"EPRV3 set {i}, {n} planet{'s' * (n != 1)}": "Nelson et al. (2020), 200 velocities"
        for n in (0, 1)
        for i in range(1, 7)
    },
}
"""Data of targets whose log ML is that of a call in docs/tables/hard.csv."""
BY = {
    "seeds": "ELBO of Chen et al. (2025), from memory",
    "German credit": "Blessing et al. (2024), from memory",
    "German credit, flat prior": "Chen et al. (2025), from memory",
    "sonar": "ELBOs of several papers, from memory",
    "pines": "ELBO of Chen et al. (2025), from memory",
    "EPRV3": "importance sampling, Nelson; team PUC",
    "radiata pine, x": "−310.1283, as exact, for data with a miscopied row",
    "radiata pine, z": "−301.7046, as exact, for data with a miscopied row",
    "galaxies, 3": "−224.138, Chib (1995), which label switching makes wrong",
    "hierarchical normal, μ = 0": "−37.53183, vignette of R's bridgesampling",
    "hierarchical normal": "−37.79683, vignette of R's bridgesampling",
}
"""Who printed a value, and the value where `hard.PUBLISHED` lacks it."""
POSTERIORDB = {
    "hudson_lynx_hare-lotka_volterra": (0.0034, SAMPLED),
    "low_dim_gauss_mix-low_dim_gauss_mix": (0.002, QUADRATURE),
    "bball_drive_event_0-hmm_drive_0": (0.0028, SAMPLED),
}
"""Error and method where they are not those of a fine quadrature."""
ANCHORS = {
    "radiata pine": "Williams (1959), 42 specimens",
    "pima": "Smith et al. (1988), 532 women, standardised",
    "galaxies": "Roeder (1990), 82 velocities, the 78th as in Chib (1995)",
    "hierarchical normal": "R: set.seed(12345) of the bridgesampling vignette, n = 20",
    "turtles": "Janzen, Tucker and Paukstis (2000), 244 turtles",
    "sleep": "Student (1908), 10 pairs",
}
EXACT, FINE = 1e-9, 1e-4
"""Errors of closed forms in double precision, and of the grids in adversaries.py."""


def row(name: str, data: str, log_ml: float, error: float, how: str, code: str, **more) -> dict:
    """One model, with its texts."""
    prior, likelihood = TEXTS[name if name in TEXTS else re.split(",| set", name)[0]]
    shown = {"name": name, "prior": prior, "likelihood": likelihood, "data": data}
    return shown | {"log_ml": log_ml, "error": error, "how": how, "code": code, **more}


def of_systems() -> Iterator[dict]:
    for name, system in SYSTEMS.items():
        more = {}
        if isinstance(system, ConjugateRegression):
            more = {"observed": {"y": system.y.tolist()}, "covariates": system.x.tolist()}
        code = f"pymc_bdmc.testsystems.{type(system).__name__}"
        yield row(name, "as in the name, or 0", system.log_z, EXACT, CLOSED, code, **more)


def of_adversary(name: str, made: Adversary) -> dict:
    error, how = FINE, QUADRATURE
    if name.startswith(FORMULAS):
        error, how = EXACT, CLOSED
    elif made.error:
        error, how = made.error, "Gibbs sampling, Chib (1995) over all orders of the components"
    values = made.model.rvs_to_values
    observed = {y.name: np.asarray(values[y].data).tolist() for y in made.model.observed_RVs}
    code = "benchmarks/adversaries.py"
    return row(name, "made by this project", made.log_ml, error, how, code, observed=observed)


def measured(name: str) -> tuple[float, float]:
    """The call with the smallest error in docs/tables/hard.csv, or that of all windows."""
    with (DOCS / "tables" / "hard.csv").open(newline="") as file:
        found = [(row["call"], *row["log ML"].split(" ± ")) for row in csv.DictReader(file)
                 if row["target"] == name and " ± " in row["log ML"]]  # fmt: skip
    values, errors = np.array([each[1:] for each in found], dtype=float).T
    windows = ["days" in call for call, *_ in found]
    if any(windows):
        share = np.exp(values[windows] - (total := logsumexp(values[windows])))
        return round(float(total), 2), round(float(np.hypot.reduce(share * errors[windows])), 3)
    best = np.argmin(errors)
    return float(values[best]), float(errors[best])


def of_published() -> Iterator[dict]:
    """Rows of public data, which are not in the project."""
    rows = HARD | {
        name: (data, *measured(name), "this package, a call in docs/tables/hard.csv")
        for name, data in MEASURED.items()
    }
    for name, (data, log_ml, error, how) in rows.items():
        by = BY.get(name.split(" set")[0], "")
        published = ", ".join(filter(None, [hard.PUBLISHED.get(name, ""), by]))
        code = "benchmarks/hard_models.py"
        yield row(name, data, log_ml, error, how, code, published=published)
    for name, log_ml in posteriordb_models.LOG_ML.items():
        error, how = POSTERIORDB.get(name, (1e-6, QUADRATURE))
        data = f"posteriordb, {name.split('-')[0]}"
        yield row(name, data, log_ml, error, how, "benchmarks/posteriordb_models.py")
    for name, log_ml in anchors.LOG_ML.items():
        error, how = 0.006, f"{QUADRATURE} or {SAMPLED}"
        if name.startswith("radiata pine") and "independent" not in name:
            error, how = 1e-6, CLOSED
        elif name.startswith(("radiata", "hierarchical", "sleep")):
            error, how = 1e-6, QUADRATURE
        data, published = ANCHORS[name.split(",")[0]], BY.get(name, "")
        yield row(name, data, log_ml, error, how, "benchmarks/anchors.py", published=published)


def written(rows: list[dict]) -> str:
    """The file: a row a line."""
    return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in rows) + "\n]\n"


def main() -> None:
    published, systems = list(of_published()), list(of_systems())
    made = [of_adversary(name, make()) for name, make in ADVERSARIES.items()]
    if "--docs" in sys.argv:
        FILE.write_text(written([*published, *systems, *made]))
    publish(
        "What is in the file", TEXT, table(["code", "models", "how", "largest error"],
        by_code([*published, *systems, *made])), page=DOCS / "reference.md",
    )  # fmt: skip


TEXT = (
    "Models by the place of their code: how log ML was got, with the number of models, and the "
    "largest error in nats."
)


def by_code(rows: list[dict]) -> list[list]:
    """A row a file of models."""
    files = dict.fromkeys(each["code"].replace("pymc_bdmc.testsystems.", "") for each in rows)
    lines = []
    for code in files:
        own = [each for each in rows if each["code"].endswith(code)]
        ways = Counter(each["how"].split(",")[0] for each in own)
        told = ", ".join(f"{how} ({n})" for how, n in ways.items())
        lines.append([f"`{code}`", len(own), told, f"{max(each['error'] for each in own):.2g}"])
    return lines


if __name__ == "__main__":
    main()
