# SPDX-License-Identifier: Apache-2.0
"""Each distribution of TensorFlow Probability, as a function of its parameters.

The parameters are arguments of the compiled functions, so that gradients are taken by them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfd, tfb = tfp.distributions, tfp.bijectors
_diagonal = tf.linalg.LinearOperatorDiag
_lower = tf.linalg.LinearOperatorLowerTriangular
_kernel = tfp.math.psd_kernels.ExponentiatedQuadratic


def _f(*items: Any) -> np.ndarray:
    return np.array(items, np.float32)


LOC, SCALE, RATE, SHARES = _f(-0.5, 1.5), _f(0.7, 2.0), _f(1.3, 3.5), _f(0.2, 0.7)
LOGITS = _f([0.1, -0.4, 0.9], [1.2, 0.3, -0.7])
COUNTS = _f(4, 7)
DENSE = _f([0.8, 1.5, 3.0], [2.0, 0.6, 1.1])
VECTOR, DIAGONAL = _f(0.3, -0.6, 1.1), _f(1.2, 0.8, 1.5)
LOWER = _f([1.2, 0, 0], [0.3, 0.8, 0], [-0.5, 0.2, 1.5])
TALL = _f([0.5], [-0.3], [0.8])
POINTS, MORE_POINTS, SEEN = _f([0.0], [0.6], [1.4]), _f([0.3], [1.0]), _f(0.2, -0.3, 0.5)
UNIT = _f(0.6, 0.0, 0.8)

Make = Callable[..., Any]

SIMPLE: list[tuple[tuple[np.ndarray, ...], str]] = [
    ((LOC, SCALE), "Cauchy DoublesidedMaxwell Gumbel HalfCauchy Laplace LogLogistic LogNormal "
     "Logistic LogitNormal Moyal Normal VonMises"),
    ((SHARES,), "ContinuousBernoulli"),
    ((RATE,), "Chi Chi2 Exponential HalfNormal Horseshoe Poisson"),
    ((RATE, SCALE), "Beta ExpGamma ExpInverseGamma Gamma InverseGamma InverseGaussian Kumaraswamy "
     "NoncentralChi2 Pareto SigmoidBeta Skellam Weibull"),
    ((RATE, LOC, SCALE), "HalfStudentT StudentT"),
    ((LOC, SCALE, RATE), "ExponentiallyModifiedGaussian GeneralizedNormal TwoPieceNormal"),
    ((LOC, SCALE, SHARES), "GeneralizedExtremeValue GeneralizedPareto"),
    ((RATE, SCALE, RATE), "GammaGamma"),
    ((LOC, SCALE, LOC, SCALE), "JohnsonSU SinhArcsinh"),
    ((RATE, SCALE, SCALE, RATE), "BetaQuotient"),
    ((LOC, SCALE, LOC - 1, LOC + 2), "TruncatedCauchy TruncatedNormal"),
    ((RATE, LOC, SCALE, RATE), "TwoPieceStudentT"),
    ((LOC, SCALE, RATE, LOC / 3), "NormalInverseGaussian"),
    ((LOC, LOC + SCALE), "Uniform"),
    ((DENSE,), "Dirichlet PlackettLuce"),
    ((COUNTS, DENSE), "DirichletMultinomial"),
    ((COUNTS, RATE, SCALE), "BetaBinomial"),
    ((COUNTS, LOC), "Binomial NegativeBinomial"),
    ((COUNTS, LOGITS), "Multinomial"),
    ((SHARES, LOGITS[0, :2]), "RelaxedBernoulli"),
    ((SHARES[:, None], LOGITS), "ExpRelaxedOneHotCategorical RelaxedOneHotCategorical"),
    ((LOGITS,), "Categorical OneHotCategorical"),
    ((LOC,), "Bernoulli Deterministic Geometric ProbitBernoulli"),
    ((VECTOR,), "VectorDeterministic Empirical"),
    ((VECTOR, LOWER), "MultivariateNormalTriL"),
    ((VECTOR, LOWER @ LOWER.T), "MultivariateNormalFullCovariance"),
    ((VECTOR, DIAGONAL), "MultivariateNormalDiag"),
    ((VECTOR, DIAGONAL, TALL), "MultivariateNormalDiagPlusLowRank "
     "MultivariateNormalDiagPlusLowRankCovariance"),
    ((_f(5.0), LOWER), "WishartTriL"),
    ((UNIT, _f(2.5)), "PowerSpherical VonMisesFisher"),
    ((np.sort(VECTOR), LOC[:, None]), "OrderedLogistic StoppingRatioLogistic"),
    ((RATE + 1,), "Zipf"),
]  # fmt: skip
"""Distributions whose first parameters these are."""


def _normal(loc: Any, scale: Any) -> Any:
    return tfd.Normal(loc, scale)


def _weather(prior: Any, turn: Any, loc: Any) -> Any:
    turns = tfd.Categorical(logits=turn)
    return tfd.HiddenMarkovModel(tfd.Categorical(logits=prior), turns, _normal(loc, 1.0), 4)


def _walk(matrix: Any, noise: Any) -> Any:
    def spread(scale: Any) -> Any:
        return tfd.MultivariateNormalDiag(tf.zeros([2]), scale)

    look = tf.constant([[1.0, 0.5]])
    seen = tfd.MultivariateNormalDiag(tf.zeros([1]), tf.ones([1]))
    return tfd.LinearGaussianStateSpaceModel(
        4, matrix, spread(noise), look, seen, spread(tf.ones([2]))
    )


def _coroutine(loc: Any, scale: Any) -> Any:
    root = tfd.JointDistributionCoroutine.Root

    def model() -> Any:
        first = yield root(tfd.Normal(loc, scale))
        yield tfd.Normal(first, 1.0)

    return model


def _chain(loc: Any, scale: Any) -> list[Any]:
    return [_normal(loc, scale), lambda first: _normal(first, scale)]


def _named(loc: Any, scale: Any) -> dict[str, Any]:
    return {"first": _normal(loc, scale), "then": lambda first: _normal(first, scale)}


OTHERS: dict[str, tuple[Make, tuple[np.ndarray, ...]]] = {
    "Autoregressive": (
        lambda a: tfd.Autoregressive(
            lambda x: tfd.Independent(_normal(0.5 * tf.roll(x, 1, -1), a), 1), tf.zeros([3]), 3),
        (DIAGONAL,)),
    "Bates": (lambda a, b: tfd.Bates(tf.constant([3.0, 5.0]), a, b), (LOC, LOC + SCALE)),
    "BatchBroadcast": (lambda a, b: tfd.BatchBroadcast(_normal(a, b), [3, 2]), (LOC, SCALE)),
    "BatchConcat": (
        lambda a, b: tfd.BatchConcat([_normal(a, b), _normal(b, b)], axis=0), (LOC, SCALE)),
    "BatchReshape": (lambda a, b: tfd.BatchReshape(_normal(a, b), [2, 1]), (LOC, SCALE)),
    "Blockwise": (
        lambda a, b: tfd.Blockwise([tfd.Independent(_normal(a, b), 1),
                                    tfd.Independent(tfd.Gamma(b, b), 1)]), (LOC, SCALE)),
    "CholeskyLKJ": (lambda a: tfd.CholeskyLKJ(3, a), (RATE,)),
    "DeterminantalPointProcess": (
        lambda a: tfd.DeterminantalPointProcess(a, tf.eye(3)), (DIAGONAL,)),
    "FiniteDiscrete": (lambda a: tfd.FiniteDiscrete([0.5, 1.0, 4.0], a), (LOGITS,)),
    "GaussianProcess": (
        lambda a, b, c: tfd.GaussianProcess(_kernel(a, b), c, observation_noise_variance=0.1),
        (_f(1.2)[0], _f(0.8)[0], POINTS)),
    "GaussianProcessRegressionModel": (
        lambda a, b, c: tfd.GaussianProcessRegressionModel(
            _kernel(a, b), MORE_POINTS, c, SEEN, observation_noise_variance=0.1),
        (_f(1.2)[0], _f(0.8)[0], POINTS)),
    "HiddenMarkovModel": (_weather, (LOC, LOGITS[:, :2], LOC)),
    "Independent": (lambda a, b: tfd.Independent(_normal(a, b), 1), (LOC, SCALE)),
    "Inflated": (lambda a, b: tfd.Inflated(tfd.Poisson(a), b), (RATE, LOC)),
    "JointDistributionCoroutine": (
        lambda a, b: tfd.JointDistributionCoroutine(_coroutine(a, b)), (LOC, SCALE)),
    "JointDistributionCoroutineAutoBatched": (
        lambda a, b: tfd.JointDistributionCoroutineAutoBatched(_coroutine(a, b)), (LOC, SCALE)),
    "JointDistributionNamed": (
        lambda a, b: tfd.JointDistributionNamed(_named(a, b)), (LOC, SCALE)),
    "JointDistributionNamedAutoBatched": (
        lambda a, b: tfd.JointDistributionNamedAutoBatched(_named(a, b)), (LOC, SCALE)),
    "JointDistributionSequential": (
        lambda a, b: tfd.JointDistributionSequential(_chain(a, b)), (LOC, SCALE)),
    "JointDistributionSequentialAutoBatched": (
        lambda a, b: tfd.JointDistributionSequentialAutoBatched(_chain(a, b)), (LOC, SCALE)),
    "LKJ": (lambda a: tfd.LKJ(3, a), (RATE,)),
    "LambertWDistribution": (
        lambda a, b: tfd.LambertWDistribution(_normal(a, b), a, b, tailweight=0.2), (LOC, SCALE)),
    "LambertWNormal": (
        lambda a, b, c: tfd.LambertWNormal(a, b, tailweight=c), (LOC, SCALE, SHARES)),
    "LinearGaussianStateSpaceModel": (_walk, (_f([0.9, 0.1], [-0.2, 0.7]), _f(0.4, 0.6))),
    "MarkovChain": (
        lambda a, b: tfd.MarkovChain(_normal(a, b), lambda _, x: _normal(0.5 * x, b), 4),
        (LOC, SCALE)),
    "Masked": (lambda a, b: tfd.Masked(_normal(a, b), [True, False]), (LOC, SCALE)),
    "MatrixNormalLinearOperator": (
        lambda a, b, c: tfd.MatrixNormalLinearOperator(a, _lower(b), _diagonal(c)),
        (DENSE.T @ DENSE, LOWER, DIAGONAL)),
    "MatrixTLinearOperator": (
        lambda a, b, c: tfd.MatrixTLinearOperator(4.5, a, _lower(b), _diagonal(c)),
        (DENSE.T @ DENSE, LOWER, DIAGONAL)),
    "Mixture": (
        lambda a, b, c: tfd.Mixture(tfd.Categorical(logits=c), [_normal(a, b), tfd.Laplace(b, b)]),
        (LOC, SCALE, LOGITS[:, :2])),
    "MixtureSameFamily": (
        lambda a, b, c: tfd.MixtureSameFamily(tfd.Categorical(logits=c), _normal(a, b)),
        (LOC, SCALE, LOGITS[:, :2])),
    "MultivariateNormalLinearOperator": (
        lambda a, b: tfd.MultivariateNormalLinearOperator(a, _lower(b)), (VECTOR, LOWER)),
    "MultivariateStudentTLinearOperator": (
        lambda a, b: tfd.MultivariateStudentTLinearOperator(3.5, a, _lower(b)), (VECTOR, LOWER)),
    "PERT": (lambda a, b: tfd.PERT(a, a + 0.4 * b, a + b), (LOC, SCALE)),
    "PoissonLogNormalQuadratureCompound": (
        tfd.PoissonLogNormalQuadratureCompound, (LOC / 3, SHARES / 2)),
    "QuantizedDistribution": (
        lambda a, b: tfd.QuantizedDistribution(_normal(a, b), -3.0, 4.0), (LOC, SCALE)),
    "Sample": (lambda a, b: tfd.Sample(_normal(a, b), [3]), (LOC, SCALE)),
    "SphericalUniform": (lambda: tfd.SphericalUniform(3), ()),
    "StudentTProcess": (
        lambda a, b, c: tfd.StudentTProcess(
            4.5, _kernel(a, b), c, observation_noise_variance=0.1),
        (_f(1.2)[0], _f(0.8)[0], POINTS)),
    "StudentTProcessRegressionModel": (
        lambda a, b, c: tfd.StudentTProcessRegressionModel(
            4.5, _kernel(a, b), MORE_POINTS, c, SEEN, observation_noise_variance=0.1),
        (_f(1.2)[0], _f(0.8)[0], POINTS)),
    "TransformedDistribution": (
        lambda a, b: tfd.TransformedDistribution(
            _normal(a, b), tfb.Chain([tfb.Softplus(), tfb.Shift(b), tfb.Scale(b)])),
        (LOC, SCALE)),
    "Triangular": (lambda a, b: tfd.Triangular(a, a + b, a + 0.3 * b), (LOC, SCALE)),
    "VariationalGaussianProcess": (
        lambda a, b, c: tfd.VariationalGaussianProcess(
            _kernel(a, b), MORE_POINTS, c, SEEN, tf.eye(3), observation_noise_variance=0.1),
        (_f(1.2)[0], _f(0.8)[0], POINTS)),
    "WishartLinearOperator": (
        lambda a: tfd.WishartLinearOperator(5.0, _lower(a)), (LOWER,)),
    "ZeroInflatedNegativeBinomial": (
        lambda a, b: tfd.ZeroInflatedNegativeBinomial(a, total_count=COUNTS, logits=b),
        (LOC, LOC)),
}  # fmt: skip
"""Distributions that are made in a way of their own."""

CANNOT: dict[str, str] = {
    "AutoCompositeTensorDistribution": "a base class: its subclasses are run",
    "Distribution": "a base class: its subclasses are run",
    "FlatDirichlet": "its own code assigns an array to an element, which NumPy 2.4 refuses",
    "JointDistribution": "a base class: its subclasses are run",
    "PixelCNN": "a network of layers of Keras 2 that it builds and initializes itself",
}
"""What has no row, and why."""

DISTRIBUTIONS: dict[str, tuple[Make, tuple[np.ndarray, ...]]] = dict(OTHERS)
"""How each distribution is made, and its parameters."""

for _parameters, _names in SIMPLE:
    for _name in _names.split():
        assert _name not in DISTRIBUTIONS, _name
        DISTRIBUTIONS[_name] = getattr(tfd, _name), _parameters
