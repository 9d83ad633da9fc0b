"""Classes that are saved by their declared state: one walker takes them apart and puts them together."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import squeak
from squeak import learners
from squeak.core import saved
from squeak.core.described import estimator_from, params_to_data
from squeak.core.saved import (
    KernelPiece,
    LabelsPiece,
    Layout,
    NestedPiece,
    RowsPiece,
    Saved,
    fill,
    put_together,
    take_apart,
)
from squeak.core.state import number, numbers, whole
from squeak.core.storage import NotStoredError, StorageError
from squeak.kernels import RBF, PairwiseKernel
from squeak.kinds import KINDS, class_of


@dataclass
class Sums(Saved):
    _state: ClassVar[Layout] = {"n": whole(low=1), "totals": numbers("columns")}
    n: int
    totals: Any


@dataclass
class Cloud(Saved):
    kind: ClassVar[str] = "cloud"
    _state: ClassVar[Layout] = {
        "points": RowsPiece(size="m"),
        "kernel": KernelPiece("points"),
        "sums": NestedPiece(Sums, optional=True),
        "weights": numbers("m", low=0.0),
    }
    points: Any
    kernel: Any
    weights: Any
    sums: Any = None


def cloud(**other):
    given = {"points": np.arange(6.0).reshape(3, 2), "kernel": RBF(2.0), "weights": np.ones(3)}
    return Cloud(**{**given, **other})


@pytest.mark.parametrize("sums", [None, Sums(4, np.array([1.0, 2.0]))])
def test_an_object_comes_back_from_its_parts_and_from_a_file(sums, tmp_path):
    before = cloud(sums=sums)
    before.save(tmp_path / "c.sqk")
    arrays, content = before.to_parts()
    assert "sums_totals" in arrays or sums is None
    for after in (Cloud.from_parts(arrays, content), Cloud.load(tmp_path / "c.sqk")):
        assert np.array_equal(after.points, before.points)
        assert after.kernel == before.kernel
        assert np.array_equal(after.weights, before.weights)
        assert after.sums is None if sums is None else (after.sums.n == 4 and after.sums.totals[1] == 2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, c: a.update(weights=np.ones(2)), r"'weights' has the shape \(2,\); it should be \(3,\)"),
        (lambda a, c: a.update(weights=-np.ones(3)), "'weights' holds NaN, or lies outside"),
        (lambda a, c: a.update(sums_totals=np.ones((2, 2))), "'totals' has 2 dimensions"),
        (lambda a, c: c["sums"].update(n=0), "'n' holds NaN, or lies outside"),
        (lambda a, c: c.update(sums=[1]), "its description is damaged"),
        (lambda a, c: a.pop("weights"), "'weights' is missing"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    arrays, content = cloud(sums=Sums(4, np.ones(2))).to_parts()
    change(arrays, content)
    with pytest.raises(ValueError, match=message):
        Cloud.from_parts(arrays, content)


def test_a_state_that_could_not_be_read_back_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="'weights' has the shape"):
        cloud(weights=np.ones(4)).save(tmp_path / "c.sqk")
    assert not list(tmp_path.iterdir())


def test_a_kernel_that_is_code_is_asked_for():
    def inner(a, b):
        return a @ b.T

    kernel = PairwiseKernel(inner)
    arrays, content = cloud(kernel=kernel).to_parts()
    with pytest.raises(NotStoredError, match="is code and is not stored"):
        Cloud.from_parts(arrays, content)


def test_a_file_of_another_kind_is_refused(tmp_path):
    cloud().save(tmp_path / "c.sqk")
    with pytest.raises(StorageError, match="holds a 'cloud', not a 'dictionary'"):
        squeak.Dictionary.load(tmp_path / "c.sqk")
    with pytest.raises(StorageError, match="holds a 'cloud', which this squeak does not know"):
        squeak.load(tmp_path / "c.sqk")
    with pytest.raises(TypeError, match="a Cloud cannot be saved"):
        squeak.save(cloud(), tmp_path / "d.sqk")


class Model:
    """A fitted model: attributes with underscores, and one that belongs to an attribute."""

    layout: ClassVar[Layout] = {
        "coef_": numbers("k"),
        "_shift": number(),
        "_map.mixing": numbers("k", "k"),
        "classes_": LabelsPiece("class_type"),
        "absent_": numbers("k", optional=True),
    }


def test_names_in_files_are_those_of_attributes_without_underscores():
    model, inner = Model(), Model()
    inner.mixing = np.eye(2)
    model.coef_, model._shift, model._map, model.classes_ = np.ones(2), 3.0, inner, np.array(["no", "yes"])
    arrays, content = take_apart(model, Model.layout, prefix="head_")
    assert set(arrays) == {"head_coef", "head_mixing"}
    assert content == {"classes": ["no", "yes"], "class_type": "<U3", "shift": 3.0}
    found = put_together(Model.layout, arrays, content, prefix="head_", k=2)
    again = fill(Model(), found)
    assert again._shift == 3.0
    assert again.classes_.tolist() == ["no", "yes"]
    assert not hasattr(again, "absent_")
    assert np.array_equal(found["_map.mixing"], np.eye(2))
    with pytest.raises(ValueError, match="it should be"):
        put_together(Model.layout, arrays, content, prefix="head_", k=3)


def test_parameters_come_back():
    made = squeak.Squeak(RBF(3.0), ridge=np.float64(2.0), random_state=np.random.default_rng(0))
    again = estimator_from(squeak.Squeak, params_to_data(made))
    assert again.kernel == RBF(3.0)
    assert again.ridge == 2.0
    assert again.random_state is None


def test_parameters_are_equal_to_themselves_after_a_file():
    """A run goes on only where its parameters are those of its file: JSON must change none of them."""
    made = [cls() for _, cls in squeak.all_estimators() if cls.__module__.split(".")[1] in ("online", "samplers")]
    assert any(isinstance(value, tuple) for one in made for value in one.get_params(deep=False).values())
    for one in made:
        assert json.loads(json.dumps(params_to_data(one))) == params_to_data(one), one


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_class(kind):
    assert class_of(kind).kind == kind


def test_properties_are_filled_where_they_can_be_set():
    class Two:
        @property
        def fixed(self):
            return 1

        @property
        def free(self):
            return self.kept

        @free.setter
        def free(self, value):
            self.kept = value

    made = saved.fill(Two(), {"fixed": 5, "free": 6, "plain": 7, "nothing": None})
    assert (made.fixed, made.free, made.plain) == (1, 6, 7)
    assert not hasattr(made, "nothing")


def test_every_learner_that_can_be_saved_is_of_a_known_kind():
    """Two were not, and saving them ended in an AttributeError."""
    for name in learners.__all__:
        cls = getattr(learners, name)
        if hasattr(cls, "save"):
            assert KINDS[cls.kind] == f"learners.{name}", name
