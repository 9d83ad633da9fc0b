"""Learners: scikit-learn estimators that solve kernel problems on a dictionary."""

from squeak.learners.cca import KernelCCA
from squeak.learners.kmeans import KernelKMeans
from squeak.learners.pca import KernelPCA
from squeak.learners.random_feature_sgd import RandomFeatureClassifier, RandomFeatureRegressor
from squeak.learners.random_features import RandomFeatures
from squeak.learners.ridge import KernelRidge

__all__ = [
    "KernelCCA",
    "KernelKMeans",
    "KernelPCA",
    "KernelRidge",
    "RandomFeatureClassifier",
    "RandomFeatureRegressor",
    "RandomFeatures",
]
