"""Learners: scikit-learn estimators that solve kernel problems on a dictionary."""

from squeak.learners.auto import AutoClassifier, AutoRegressor
from squeak.learners.baselines import BasicFalkon, DivideAndConquerRidge, NytroRegressor
from squeak.learners.blend import KernelBlend
from squeak.learners.cca import KernelCCA
from squeak.learners.classifier import KernelClassifier
from squeak.learners.descent import KernelGradientDescent
from squeak.learners.experts import LocalExperts
from squeak.learners.features import Nystroem
from squeak.learners.kmeans import KernelKMeans
from squeak.learners.pca import KernelPCA
from squeak.learners.quadrature import QuadratureFeatures
from squeak.learners.random_feature_classifier import RandomFeatureClassifier
from squeak.learners.random_feature_regressor import RandomFeatureRegressor
from squeak.learners.random_features import RandomFeatures
from squeak.learners.ridge import KernelRidge
from squeak.learners.ridge_cv import KernelRidgeCV

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "BasicFalkon",
    "DivideAndConquerRidge",
    "KernelBlend",
    "KernelCCA",
    "KernelClassifier",
    "KernelGradientDescent",
    "KernelKMeans",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeCV",
    "LocalExperts",
    "Nystroem",
    "NytroRegressor",
    "QuadratureFeatures",
    "RandomFeatureClassifier",
    "RandomFeatureRegressor",
    "RandomFeatures",
]
