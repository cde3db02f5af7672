# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps as single ops: `ResourceApply*`, as TensorFlow 1 and Keras 2 optimizers emit.

Each reads its variables, computes new values as TensorFlow's kernels do, and writes them back.
Source: TensorFlow's `kernels/training_ops.cc`.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.state_ops.variables import read, write
from ingot.hlo.instruction import Instruction


def _times(b: TensorBuilder, *factors: Instruction | float) -> Instruction:
    first, *others = factors
    assert isinstance(first, Instruction)
    for factor in others:
        first = b.binary("multiply", first, factor)
    return first


def _one_minus(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.binary("add", b.negate(x), 1)


def _decayed(
    b: TensorBuilder, old: Instruction, new: Instruction, decay: Instruction
) -> Instruction:
    """Old + (new - old) * (1 - decay), in the kernels' own order."""
    return b.add(old, _times(b, b.subtract(new, old), _one_minus(b, decay)))


def _gradient_descent(op: Op) -> tuple[Value, ...]:
    b = op.b
    alpha, delta = op.tensors(1, 3)
    return write(op, b.subtract(read(op), _times(b, delta, alpha)))


def _momentum(op: Op) -> tuple[Value, ...]:
    """var, accum, lr, grad, momentum."""
    b = op.b
    rate, gradient, momentum = op.tensors(2, 5)
    total = b.add(_times(b, read(op, 1), momentum), gradient)
    step = _times(b, total, rate)
    if op.attribute("use_nesterov", False):
        step = b.add(_times(b, gradient, rate), _times(b, total, momentum, rate))
    write(op, total, 1)
    return write(op, b.subtract(read(op), step))


def _keras_momentum(op: Op) -> tuple[Value, ...]:
    """Like momentum, with the rate inside the accumulator."""
    b = op.b
    rate, gradient, momentum = op.tensors(2, 5)
    change = _times(b, gradient, rate)
    total = b.subtract(_times(b, read(op, 1), momentum), change)
    step = total
    if op.attribute("use_nesterov", False):
        step = b.subtract(_times(b, total, momentum), change)
    write(op, total, 1)
    return write(op, b.add(read(op), step))


def _adam(op: Op) -> tuple[Value, ...]:
    """var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad."""
    b = op.b
    power1, power2, rate, beta1, beta2, epsilon, gradient = op.tensors(3, 10)
    alpha = b.divide(b.multiply(rate, b.sqrt(_one_minus(b, power2))), _one_minus(b, power1))
    first = _decayed(b, read(op, 1), gradient, beta1)
    second = _decayed(b, read(op, 2), b.multiply(gradient, gradient), beta2)
    top = first
    if op.attribute("use_nesterov", False):
        top = b.add(_times(b, gradient, _one_minus(b, beta1)), _times(b, first, beta1))
    step = b.divide(_times(b, top, alpha), b.binary("add", b.sqrt(second), epsilon))
    write(op, first, 1)
    write(op, second, 2)
    return write(op, b.subtract(read(op), step))


def _adam_with_amsgrad(op: Op) -> tuple[Value, ...]:
    """var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad."""
    b = op.b
    power1, power2, rate, beta1, beta2, epsilon, gradient = op.tensors(4, 11)
    alpha = b.divide(b.multiply(rate, b.sqrt(_one_minus(b, power2))), _one_minus(b, power1))
    first = _decayed(b, read(op, 1), gradient, beta1)
    second = _decayed(b, read(op, 2), b.multiply(gradient, gradient), beta2)
    largest = b.maximum(read(op, 3), second)
    step = b.divide(_times(b, first, alpha), b.binary("add", b.sqrt(largest), epsilon))
    for number, value in ((1, first), (2, second), (3, largest)):
        write(op, value, number)
    return write(op, b.subtract(read(op), step))


def _ada_max(op: Op) -> tuple[Value, ...]:
    """var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad."""
    b = op.b
    power1, rate, beta1, beta2, epsilon, gradient = op.tensors(3, 9)
    first = _decayed(b, read(op, 1), gradient, beta1)
    second = b.maximum(_times(b, read(op, 2), beta2), b.abs(gradient))
    scale = b.divide(rate, _one_minus(b, power1))
    step = _times(b, b.divide(first, b.binary("add", second, epsilon)), scale)
    write(op, first, 1)
    write(op, second, 2)
    return write(op, b.subtract(read(op), step))


def _adagrad(op: Op, epsilon: Instruction | None, gradient: Instruction) -> tuple[Value, ...]:
    b = op.b
    rate, total = op.tensor(2), read(op, 1)
    if op.attribute("update_slots", True):
        total = b.add(total, b.multiply(gradient, gradient))
        write(op, total, 1)
    root = b.sqrt(total)
    if epsilon is not None:
        return write(
            op,
            b.subtract(
                read(op), b.divide(_times(b, gradient, rate), b.binary("add", root, epsilon))
            ),
        )
    return write(op, b.subtract(read(op), b.divide(_times(b, gradient, rate), root)))


def _adadelta(op: Op) -> tuple[Value, ...]:
    """var, accum, accum_update, lr, rho, epsilon, grad."""
    b = op.b
    rate, rho, epsilon, gradient = op.tensors(3, 7)
    total = b.add(
        _times(b, read(op, 1), rho), _times(b, b.multiply(gradient, gradient), _one_minus(b, rho))
    )
    past = read(op, 2)
    root = b.divide(b.sqrt(b.binary("add", past, epsilon)), b.sqrt(b.binary("add", total, epsilon)))
    update = b.multiply(root, gradient)
    write(op, total, 1)
    write(
        op,
        b.add(_times(b, past, rho), _times(b, b.multiply(update, update), _one_minus(b, rho))),
        2,
    )
    return write(op, b.subtract(read(op), _times(b, update, rate)))


def _rms_prop(op: Op) -> tuple[Value, ...]:
    """var, ms, mom, lr, rho, momentum, epsilon, grad."""
    b = op.b
    rate, rho, momentum, epsilon, gradient = op.tensors(3, 8)
    square = _decayed(b, read(op, 1), b.multiply(gradient, gradient), rho)
    step = b.divide(_times(b, gradient, rate), b.sqrt(b.binary("add", square, epsilon)))
    total = b.add(_times(b, read(op, 2), momentum), step)
    write(op, square, 1)
    write(op, total, 2)
    return write(op, b.subtract(read(op), total))


def _centered_rms_prop(op: Op) -> tuple[Value, ...]:
    """var, mg, ms, mom, lr, rho, momentum, epsilon, grad."""
    b = op.b
    rate, rho, momentum, epsilon, gradient = op.tensors(4, 9)
    square = _decayed(b, read(op, 2), b.multiply(gradient, gradient), rho)
    average = _decayed(b, read(op, 1), gradient, rho)
    spread = b.subtract(square, b.multiply(average, average))
    step = b.divide(_times(b, gradient, rate), b.sqrt(b.binary("add", spread, epsilon)))
    total = b.add(_times(b, read(op, 3), momentum), step)
    for number, value in ((1, average), (2, square), (3, total)):
        write(op, value, number)
    return write(op, b.subtract(read(op), total))


def _signed(op: Op) -> tuple[Value, ...]:
    """AddSign: var, m, lr, alpha, sign_decay, beta, grad."""
    b = op.b
    rate, alpha, decay, beta, gradient = op.tensors(2, 7)
    first = _decayed(b, read(op, 1), gradient, beta)
    agree = b.multiply(b.sign(gradient), b.sign(first))
    factor = b.binary("add", _times(b, agree, decay), alpha)
    write(op, first, 1)
    return write(op, b.subtract(read(op), _times(b, gradient, factor, rate)))


def _powered(op: Op) -> tuple[Value, ...]:
    """PowerSign: var, m, lr, logbase, sign_decay, beta, grad."""
    b = op.b
    rate, base, decay, beta, gradient = op.tensors(2, 7)
    first = _decayed(b, read(op, 1), gradient, beta)
    agree = b.multiply(b.sign(gradient), b.sign(first))
    factor = b.exponential(_times(b, agree, base, decay))
    write(op, first, 1)
    return write(op, b.subtract(read(op), _times(b, gradient, factor, rate)))


def _proximal_descent(op: Op) -> tuple[Value, ...]:
    """var, alpha, l1, l2, delta."""
    b = op.b
    alpha, lasso, ridge, delta = op.tensors(1, 5)
    moved = b.subtract(read(op), _times(b, delta, alpha))
    shrunk = b.binary("subtract", b.abs(moved), _times(b, alpha, lasso))
    held = _times(b, b.sign(moved), b.binary("maximum", shrunk, 0))
    bottom = b.binary("add", _times(b, alpha, ridge), 1)
    return write(op, b.binary("divide", held, bottom))


def _proximal_adagrad(op: Op) -> tuple[Value, ...]:
    """var, accum, lr, l1, l2, grad."""
    b = op.b
    rate, lasso, ridge, gradient = op.tensors(2, 6)
    total = b.add(read(op, 1), b.multiply(gradient, gradient))
    step = _times(b, b.rsqrt(total), rate)
    moved = b.subtract(read(op), b.multiply(gradient, step))
    shrunk = b.binary("maximum", b.subtract(b.abs(moved), _times(b, step, lasso)), 0)
    positive = b.spread(b.compared("GT", lasso, 0), moved.shape.dims)
    held = b.select(positive, b.multiply(b.sign(moved), shrunk), moved)
    write(op, total, 1)
    return write(op, b.divide(held, b.binary("add", _times(b, step, ridge), 1)))


def _dual_averaging(op: Op) -> tuple[Value, ...]:
    """var, sum of gradients, sum of squares, grad, lr, l1, l2, global_step."""
    b = op.b
    gradient, rate, lasso, ridge = op.tensors(3, 7)
    steps = b.convert_to(op.tensor(7), gradient.shape.dtype)
    total = b.add(read(op, 1), gradient)
    squares = b.add(read(op, 2), b.multiply(gradient, gradient))
    shrunk = b.binary("subtract", b.abs(total), b.multiply(lasso, steps))
    held = b.multiply(b.sign(total), b.binary("maximum", shrunk, 0))
    positive = b.spread(b.compared("GT", lasso, 0), total.shape.dims)
    top = _times(b, b.negate(b.select(positive, held, total)), rate)
    bottom = b.binary("add", b.sqrt(squares), _times(b, ridge, steps, rate))
    write(op, total, 1)
    write(op, squares, 2)
    return write(op, b.divide(top, bottom))


def _ftrl(op: Op, shrinkage: Instruction | None, power: Instruction) -> tuple[Value, ...]:
    """var, accum, linear, grad, lr, l1, l2, [l2_shrinkage,] lr_power."""
    b = op.b
    gradient, rate, lasso, ridge = op.tensors(3, 7)
    value, total, linear = (read(op, number) for number in range(3))
    by_rate = bool(op.attribute("multiply_linear_by_lr", False))
    pulled = gradient
    if shrinkage is not None:
        pulled = b.add(gradient, _times(b, value, shrinkage, 2.0))
    summed = b.add(total, b.multiply(gradient, gradient))
    exponent = b.negate(power)
    after, before = (b.binary("power", item, exponent) for item in (summed, total))
    change, bottom, ridge = b.subtract(after, before), after, _times(b, ridge, 2.0)
    if by_rate:
        # All of the formula times the rate: `linear` is stored so.
        pulled, lasso, ridge = (_times(b, item, rate) for item in (pulled, lasso, ridge))
    else:
        change, bottom = (b.binary("divide", item, rate) for item in (change, bottom))
    linear = b.subtract(b.add(linear, pulled), b.multiply(change, value))
    bottom = b.binary("add", bottom, ridge)
    held = b.spread(lasso, linear.shape.dims)
    top = b.subtract(b.clamp(b.negate(held), linear, held), linear)
    write(op, summed, 1)
    write(op, linear, 2)
    return write(op, b.divide(top, bottom))


RULES: dict[str, Rule] = {
    "ResourceApplyFtrl": lambda op: _ftrl(op, None, op.tensor(7)),
    "ResourceApplyFtrlV2": lambda op: _ftrl(op, op.tensor(7), op.tensor(8)),
    "ResourceApplyAdaMax": _ada_max,
    "ResourceApplyAdadelta": _adadelta,
    "ResourceApplyAdagradDA": _dual_averaging,
    "ResourceApplyProximalAdagrad": _proximal_adagrad,
    "ResourceApplyAdagrad": lambda op: _adagrad(op, None, op.tensor(3)),
    "ResourceApplyAdagradV2": lambda op: _adagrad(op, op.tensor(3), op.tensor(4)),
    "ResourceApplyAdam": _adam,
    "ResourceApplyAdamWithAmsgrad": _adam_with_amsgrad,
    "ResourceApplyAddSign": _signed,
    "ResourceApplyCenteredRMSProp": _centered_rms_prop,
    "ResourceApplyGradientDescent": _gradient_descent,
    "ResourceApplyKerasMomentum": _keras_momentum,
    "ResourceApplyMomentum": _momentum,
    "ResourceApplyPowerSign": _powered,
    "ResourceApplyProximalGradientDescent": _proximal_descent,
    "ResourceApplyRMSProp": _rms_prop,
}
