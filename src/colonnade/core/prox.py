r"""The exact z-step of VIMADMM: the proximal point of a task's loss, for every row of a batch.

**Cross-entropy.** The problem of one row, ``min_z  lse(z) - <y, z> - <dual, z> + rho/2 |total - z|^2`` with ``lse`` the
log-sum-exp, completes to ``min_z  lse(z) + rho/2 |z - s|^2`` with ``s = total + (y + dual) / rho``.
Its only stationary point is ``z = s - p / rho`` with ``p = softmax(z)``.

Newton's method on ``z`` overshoots when ``rho`` is small: the softmax is then one-hot along most of the step,
so the Hessian does not show the kink that the step jumps over.  We solve for the single number ``L = lse(z)`` instead.
Given ``L``, every coordinate has the closed form

    ``p_i(L) = rho * omega(s_i - L - log rho)``,    ``omega`` the Wright function: ``omega(x) + log omega(x) = x``,

and the remaining equation is ``h(L) = sum_i p_i(L) - 1 = 0``.  Three facts make plain Newton on ``h`` safe and short:

* ``h`` is decreasing and convex, so Newton started left of the root climbs to it and never passes it.
* ``lse(s) - max softmax(s) / rho`` is left of the root (convexity of ``lse``), and exact for equal logits.
* ``h'' <= |h'|``, so a step of length d leaves an error of about d^2 at most: this is the stopping rule.

A row's weight w multiplies ``lse(z) - <y, z>``: then ``s = total + (w y + dual) / rho``, and rho / w stands for rho.

**Squared error**, ``|z - y|^2 / 2``: ``z = (y + dual + rho total) / (1 + rho)``.

**Logistic loss** of every entry, ``w (log(1 + e^z) - y z)``: with ``c = w / rho`` the stationary point is the root of
``f(z) = z + c sigmoid(z) - s``. By ``sigmoid(-z) = 1 - sigmoid(z)`` the problem with ``c - s`` for ``s`` has the root
``-z``, so let the root be negative. There f is increasing and convex, and plain Newton from the right of the root never
passes it. ``e^z / 2 <= sigmoid(z)`` gives such a start, ``s - omega(s + log(c/2))``. The stopping rule is the same,
because ``f'' <= f'``.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot, softplus

from colonnade.errors import TrainingError

# Newton on a convex h divides h * |h'| by four or more at each step, so about 30 steps are enough for any row with
# rho >= 1e-3 (10 is the most we have seen); more means that something is broken.
MAX_STEPS = 100

# omega(-100) = 4e-44 adds nothing to a sum that is 1, and its logarithm is still finite.
_LOWEST = -100.0


def cross_entropy_prox(
    total: Tensor, dual: Tensor, target: Tensor, rho: float, weights: Tensor | None = None
) -> Tensor:
    """z_j = argmin_z  w_j CE(z, y_j) - <dual_j, z> + rho/2 |total_j - z|^2   for every row j.

    ``total`` and ``dual`` are [b, C]; ``target`` is class numbers [b] or probability rows [b, C]; ``weights`` w are
    [b, 1], or all one.
    The result has the dtype and device of ``total`` (the work is done in float64) and carries no gradient.

    >>> zeros = torch.zeros(1, 2, dtype=torch.float64)
    >>> z = cross_entropy_prox(zeros, zeros, torch.tensor([0]), rho=1.0)
    >>> bool(torch.allclose(z, z.new_tensor([1.0, 0.0]) - z.softmax(1)))
    True
    """
    _check(total, dual, target, rho, [total.shape, total.shape[:1]])
    with torch.no_grad():
        rate: float | Tensor = rho
        if weights is not None:
            rate = rho / _exact(weights)
            target = _exact(weights) * _exact(target if target.dim() == 2 else one_hot(target.long(), total.shape[1]))
        centre = _centre(total, dual, target, rho)
        _check_finite(centre)
        # The shift by the largest entry keeps L in [-1/rho, log C], so large logits cost no digits below.
        return (centre - _softmax_at_optimum(centre - centre.amax(1, keepdim=True), rate) / rate).to(total)


def squared_prox(total: Tensor, dual: Tensor, target: Tensor, rho: float) -> Tensor:
    """z_j = argmin_z  |z - y_j|^2 / 2 - <dual_j, z> + rho/2 |total_j - z|^2   for every row j; all are [b, d].

    >>> squared_prox(torch.zeros(1, 1), torch.zeros(1, 1), torch.tensor([[3.0]]), rho=0.5)
    tensor([[2.]])
    """
    _check(total, dual, target, rho, [total.shape])
    with torch.no_grad():
        z = (_exact(target) + _exact(dual) + rho * _exact(total)) / (1.0 + rho)
        _check_finite(z)
        return z.to(total)


def logistic_prox(total: Tensor, dual: Tensor, target: Tensor, rho: float, weights: Tensor | None = None) -> Tensor:
    """z_jl = argmin_z  w (log(1 + e^z) - y z) - dual z + rho/2 (total - z)^2   for every entry; all are [b, L].

    >>> zero = torch.zeros(1, 1, dtype=torch.float64)
    >>> z = logistic_prox(zero, zero, zero + 1, rho=1.0)
    >>> bool(torch.allclose(z, 1 - z.sigmoid()))
    True
    """
    _check(total, dual, target, rho, [total.shape])
    with torch.no_grad():
        ratio = _exact(torch.ones_like(target) if weights is None else weights) / rho
        centre = torch.add(_exact(total), _exact(dual), alpha=1.0 / rho) + ratio * _exact(target)
        _check_finite(centre)
        mirrored = centre > ratio / 2  # where the root is positive
        z = _negative_root(torch.where(mirrored, ratio - centre, centre), ratio)
        return torch.where(mirrored, -z, z).to(total)


def _check(total: Tensor, dual: Tensor, target: Tensor, rho: float, shapes: Sequence[torch.Size]) -> None:
    if not 0.0 < rho < math.inf:
        raise TrainingError(f"the z-step got rho = {rho}, expected a positive finite number; correct the option rho.")
    if total.dim() != 2 or dual.shape != total.shape or target.shape not in shapes:
        shown = f"total {list(total.shape)}, dual {list(dual.shape)} and target {list(target.shape)}"
        expected = "[b] or [b, C]" if len(shapes) > 1 else "[b, C]"
        raise TrainingError(f"the z-step got {shown}, expected [b, C], [b, C] and {expected}; correct the shapes.")


def _exact(values: Tensor) -> Tensor:
    """As float64; where there is none, on the host."""
    return (values.cpu() if values.device.type == "mps" else values).double()


def _check_finite(values: Tensor) -> None:
    # One reduction finds NaN and both infinities: any of them makes the sum non-finite.
    if not math.isfinite(values.sum().item()):
        raise TrainingError(
            "the z-step got logits, duals or labels that are not finite; lower the learning rate or raise rho."
        )


def _centre(total: Tensor, dual: Tensor, target: Tensor, rho: float) -> Tensor:
    """S = total + (y + dual) / rho in float64."""
    centre = torch.add(_exact(total), _exact(dual), alpha=1.0 / rho)
    if target.dim() == 2:
        return centre.add_(_exact(target), alpha=1.0 / rho)
    index = target.long().unsqueeze(1).to(centre.device)
    return centre.scatter_add_(1, index, centre.new_full(index.shape, 1.0 / rho))


def _softmax_at_optimum(s: Tensor, rho: float | Tensor) -> Tensor:
    """P = softmax(z) at the optimum of every row, by Newton on L; the largest entry of each row of ``s`` is 0.

    ``rho`` is one number, or one per row [b, 1].
    """
    least = rho if isinstance(rho, float | int) else float(rho.amin()) if rho.numel() else 1.0
    # An error of eps * max(1, 1/rho) in z = s - p/rho is its rounding error; a step of the root of that reaches it.
    enough = math.sqrt(torch.finfo(s.dtype).eps * max(1.0, 1.0 / least))
    level = s.logsumexp(1, keepdim=True)
    # The largest entry of s is 0, so exp(-lse(s)) is the largest entry of softmax(s).
    level = level - torch.exp(-level) / rho
    s = s - (rho.log() if isinstance(rho, Tensor) else math.log(rho))
    for _ in range(MAX_STEPS):
        omega = _wright_omega((s - level).clamp_(min=_LOWEST))
        p = omega * rho
        slope = p / omega.add_(1.0)  # -dp/dL
        step = (p.sum(1, keepdim=True) - 1.0) / slope.sum(1, keepdim=True)
        if bool((step.abs() <= enough).all()):
            # The last step to first order: its error is d^2 again, so omega need not be computed once more.
            return p - slope * step
        level = level + step
    raise TrainingError(f"the z-step did not converge in {MAX_STEPS} Newton steps at rho = {least}; raise rho.")


def _negative_root(s: Tensor, c: Tensor) -> Tensor:
    """The root of z + c sigmoid(z) = s for every entry, where none is positive."""
    enough = math.sqrt(torch.finfo(s.dtype).eps)
    z = (s - _wright_omega((s + (c / 2).log()).clamp_(min=_LOWEST))).clamp_(max=0.0)
    for _ in range(MAX_STEPS):
        p = z.sigmoid()
        step = (z + c * p - s) / (1.0 + c * p * (1.0 - p))
        z = z - step
        if bool((step.abs() <= enough).all()):
            return z
    raise TrainingError(f"the z-step did not converge in {MAX_STEPS} Newton steps; raise rho.")


def _wright_omega(x: Tensor) -> Tensor:
    """The solution w of w + log w = x, to rounding error for every x >= -700.

    Two steps of the fourth-order method of Fritsch, Shafer and Crowley, as in Lawrence, Corless and Jeffrey,
    "Algorithm 917: Complex double-precision evaluation of the Wright omega function" (ACM TOMS 2012).  Softplus
    is right at both ends and at most 40 % off between; one step leaves 1e-4, the second leaves 1e-15.
    """
    w = softplus(x)
    for _ in range(2):
        r = (x - w).sub_(w.log())
        u = w + 1.0
        t = torch.add(u, r, alpha=2.0 / 3.0).mul_(u)
        w = w * (r / u * torch.sub(t, r, alpha=0.5) / (t - r) + 1.0)
    return w
