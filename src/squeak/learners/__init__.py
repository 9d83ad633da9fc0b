"""Learners: scikit-learn estimators that solve kernel problems on a dictionary."""

from squeak.learners.ridge import KernelRidge

__all__ = ["KernelRidge"]
