"""A rehearsal with small networks, so that its cost does not depend on numbers that another side claims.

What a message looks like follows from the method and its widths, and from no network's inside. So a party rehearses
with rows of one number and networks of one number, and with narrow stand-ins for wide widths, which are put back in
the forms that come out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from torch import Tensor, nn

from colonnade.errors import ManifestError
from colonnade.run.rehearsal import ROWS as TRIED
from colonnade.run.rehearsal import rehearse
from colonnade.runtime.plan import Plan

WIDE = 64
_WIDTHS = ("embedding", "hidden", "projection")
_STAND_INS = (67, 71, 73, 79, 83, 89, 97, 101)  # primes, so that none is a product of others


class _Mean(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows.flatten(1).mean(-1, keepdim=True)


class Slim:
    """Builds small networks with the inputs and outputs of real ones."""

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """From rows to the width."""
        return nn.Sequential(_Mean(), nn.Linear(1, width))

    def decision(self, embedding: int, classes: int) -> nn.Module:
        """From an embedding to outputs."""
        return nn.Sequential(_Mean(), nn.Linear(1, classes))

    def decoder(self, shape: tuple[int, ...], embedding: int) -> nn.Module:
        """From an embedding to a row, which has one number here."""
        return nn.Sequential(_Mean(), nn.Linear(1, 1))


def rehearse_small(signed: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The forms of all messages but the owner's to itself, as :meth:`Schema.to_json` gives them.

    Of the plan that is to be ``signed`` only names, rows, shapes and outputs count.
    """
    method, settings, count = plan.method, plan.settings, len(signed["tables"])
    names = [field.name for field in fields(method)]
    widths = {name: getattr(method, name) for name in _WIDTHS if name in names} | {"outputs": signed["outputs"]}
    narrow = _narrow(widths, count)
    outline = {
        "tables": [[name, rows, [1] if shape else []] for name, rows, shape in signed["tables"]],
        "settings": {"task": settings.task},
        "outputs": narrow.get("outputs", signed["outputs"]),
        "names": [],
    }
    options: dict[str, Any] = {name: value for name, value in narrow.items() if name != "outputs"}
    options |= {"local_steps": 1} if "local_steps" in names else {}
    small = replace(
        plan,
        method=replace(method, **options),
        settings=replace(settings, threads=1, weights=None),
        models=(Slim(),) * len(plan.optimizers),
    )
    schema = rehearse(outline, small, quick=True)
    known = {narrow[name]: widths[name] for name in narrow}
    return _widened(
        without_owner(schema.to_json(), signed["tables"][0][0]), known, [*widths.values(), count - 1, count]
    )


def without_owner(schema: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The forms of messages that travel: what the owner asks of its own part concerns nobody else."""
    return {key: form for key, form in schema.items() if not key.startswith(f"{owner}/")}


def _narrow(widths: Mapping[str, int], count: int) -> dict[str, int]:
    """A stand-in for every wide width, unlike any other dimension."""
    taken = {*widths.values(), *TRIED, count - 1, count}
    free = iter(number for number in _STAND_INS if number not in taken)
    return {name: next(free) for name, width in widths.items() if width > WIDE}


def _widened(schema: dict[str, Any], known: Mapping[int, int], others: Sequence[int]) -> dict[str, Any]:
    for form in schema.values():
        for name, (kind, shape) in form.items():
            if known and any(width > 1 and width not in known and width not in others for width in shape):
                raise ManifestError(
                    f"the plan has widths beyond {WIDE}, and '{name}' of this method follows from them in a way that "
                    "cannot be worked out here; ask for narrower ones."
                )
            form[name] = [kind, [known.get(width, width) for width in shape]]
    return schema
