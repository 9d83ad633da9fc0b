"""Learners: scikit-learn estimators that solve kernel problems on a dictionary."""

from squeak.learners.cca import KernelCCA
from squeak.learners.descent import KernelGradientDescent
from squeak.learners.kmeans import KernelKMeans
from squeak.learners.pca import KernelPCA
from squeak.learners.random_feature_classifier import RandomFeatureClassifier
from squeak.learners.random_feature_regressor import RandomFeatureRegressor
from squeak.learners.random_features import RandomFeatures
from squeak.learners.ridge import KernelRidge

__all__ = [
    "KernelCCA",
    "KernelGradientDescent",
    "KernelKMeans",
    "KernelPCA",
    "KernelRidge",
    "RandomFeatureClassifier",
    "RandomFeatureRegressor",
    "RandomFeatures",
]
