# SPDX-License-Identifier: Apache-2.0
"""All distributions of TensorFlow Probability, or those that a pattern matches.

    python -m tests.frontends.tensorflow.probability.sweep ['names']

compares samples, densities with their gradients, and moments with plain TensorFlow, and prints
what fails; `make test-tensorflow-libraries` runs it. TensorFlow Probability is not among the tests'
requirements: see pyproject.toml.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_ops
from tests.frontends.tensorflow.keras.row import Row, with_gradients
from tests.frontends.tensorflow.keras.sweep import compare_all
from tests.frontends.tensorflow.probability.table import CANNOT, DISTRIBUTIONS, Make, tfd

SEED = (3, 8)
STATISTICS = ("mean", "variance", "mode", "entropy")


def sample(make: Make, parameters: Any, jit: Any) -> Any:
    """Return samples; gradients flow through those that are reparameterized."""

    def drawn(*given: Any) -> Any:
        return make(*given).sample(3, seed=tf.constant(SEED))

    return _call(lambda *given: with_gradients(drawn, *given), parameters, jit)


def density(make: Make, parameters: Any, jit: Any) -> Any:
    """Return the logarithm of the density at samples of plain TensorFlow, with gradients."""
    value = sample(make, parameters, None)[0]

    def body(value: Any, *given: Any) -> Any:
        return with_gradients(lambda at, *rest: make(*rest).log_prob(at), value, *given)

    return _call(body, (value, *parameters), jit)


def statistics(make: Make, parameters: Any, jit: Any) -> Any:
    """Return the statistics that a distribution knows, and how many they are."""
    names = [name for name in STATISTICS if _knows(make(*parameters), name)]

    def body(*given: Any) -> Any:
        return tf.constant(len(names)), [getattr(make(*given), name)() for name in names]

    return _call(body, parameters, jit)


def _call(body: Callable[..., Any], given: tuple[Any, ...], jit: Any) -> Any:
    """Call a function that is traced as for XLA, compiled or not.

    TensorFlow Probability draws by another algorithm where it finds itself traced for XLA.
    """

    def traced(*tensors: Any) -> Any:
        context = control_flow_ops.XLAControlFlowContext()
        context.Enter()
        try:
            return body(*tensors)
        finally:
            context.Exit()

    function = tf.function(body if jit else traced, jit_compile=jit, autograph=False)
    return function(*tf.nest.map_structure(tf.constant, given))


def _knows(distribution: Any, name: str) -> bool:
    try:
        getattr(distribution, name)()
    except (NotImplementedError, ValueError, TypeError, AttributeError):
        return False
    return True


def rows() -> Iterator[Row]:
    """Yield the rows of all distributions."""
    ways: tuple[Callable[..., Any], ...] = (sample, density, statistics)
    for name, (make, parameters) in sorted(DISTRIBUTIONS.items()):
        for way in ways:
            yield Row(
                f"{name}.{way.__name__}",
                lambda jit, way=way, make=make, given=parameters: way(make, given, jit),
            )


def unlisted() -> set[str]:
    """Return the distributions that have neither a row nor a reason."""
    return {
        name
        for name, item in vars(tfd).items()
        if inspect.isclass(item) and issubclass(item, tfd.Distribution)
    } ^ (DISTRIBUTIONS.keys() | CANNOT.keys())


if __name__ == "__main__":
    wanted = re.compile(sys.argv[1] if len(sys.argv) > 1 else ".*")
    assert not unlisted(), unlisted()
    sys.exit(compare_all([row for row in rows() if wanted.fullmatch(row.name)]))
