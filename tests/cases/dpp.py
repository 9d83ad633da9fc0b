"""Determinantal point processes: exact, by VFX, and of fixed size."""

from __future__ import annotations

import numpy as np

import squeak
from squeak.dpp import DPP, ExactDPP, scale_for_size
from squeak.kernels import RBF
from squeak.samplers import Bless, Uniform
from tests.cases import case, points


def of(samples):
    """Return several subsets as one array, with their sizes."""
    return {"sizes": [len(rows) for rows in samples], "rows": np.concatenate(samples)}


@case("dpp: exact")
def _(folder):
    process = ExactDPP(RBF(1.0), random_state=0).fit(points(200))
    found = of(process.sample(4))
    found |= {f"fixed, {key}": value for key, value in of(process.sample(3, k=7)).items()}
    found |= {"marginals": process.marginals(), "size": process.expected_size_}
    return {**found, "log": process.log_probability([0, 5, 9]), "kernel": process.marginal_kernel()[:5]}


@case("dpp: VFX")
def _(folder):
    process = DPP(RBF(1.0), random_state=0).fit(points())
    found = {"once": process.sample(), **of(process.sample(5)), "atoms": process.dictionary_.indices}
    return {**found, "size": process.expected_size_, "rate": process.acceptance_rate_}


@case("dpp: VFX of fixed size")
def _(folder):
    process = DPP(RBF(1.0), random_state=1).fit(points())
    return {**of(process.sample(4, k=12)), "rate": process.acceptance_rate_}


@case("dpp: VFX with samplers and an expected size")
def _(folder):
    sized = DPP(RBF(1.0), Bless(ridge=1.0), expected_size=15.0, random_state=0).fit(points())
    plain = DPP(RBF(1.0), Uniform(max_atoms=150), random_state=0).fit(points(200))
    found = {**of(sized.sample(4)), "scale": sized.scale_, "size": sized.expected_size_}
    return {**found, "uniform": plain.sample(), "marginals": plain.marginals()}


@case("dpp: the scale for a size, and a saved process")
def _(folder):
    scale = scale_for_size(points(200), RBF(1.0), 20, random_state=0)
    np.save(folder / "x.npy", points(300))
    process = DPP(RBF(1.0), random_state=0).fit(squeak.rows(folder / "x.npy"))
    first = process.sample()
    process.save(folder / "d.sqk")
    return {"scale": float(scale), "first": first, "next": process.sample()}
