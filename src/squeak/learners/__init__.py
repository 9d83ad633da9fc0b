"""Learners: scikit-learn estimators that solve kernel problems on a dictionary."""

from squeak.learners.classifier import KernelClassifier
from squeak.learners.features import Nystroem
from squeak.learners.ridge import KernelRidge
from squeak.learners.ridge_cv import KernelRidgeCV

__all__ = ["KernelClassifier", "KernelRidge", "KernelRidgeCV", "Nystroem"]
