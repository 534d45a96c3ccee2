"""A plan from the keyword arguments of ``cn.train``, for tests of what is below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import colonnade as cn
from colonnade.core.settings import TrainOptions
from colonnade.run.make_plan import make_plan
from colonnade.runtime.plan import Plan

BUILDERS = ("model", "optimizer", "seal")


def plan_for(tables: Sequence[cn.Table], method: str | cn.Method, **options: Any) -> Plan:
    builders = {name: options.pop(name) for name in BUILDERS if name in options}
    return make_plan(tables, method, TrainOptions(**options).filled(), **builders)
