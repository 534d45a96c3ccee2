"""``audit``: every attack that fits on every secret of a run, within a budget of CPU seconds, and the verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from colonnade.core.options import number, seed_of
from colonnade.core.schedule import derive_seed
from colonnade.core.table import Table
from colonnade.errors import ConfigError, TableError, unknown
from colonnade.privacy import attacks as _registered  # noqa: F401 - importing them puts them into the registry
from colonnade.privacy.advantage import Advantage, Judge, judge_of, measure_advantage
from colonnade.privacy.agreement import Agreement
from colonnade.privacy.attack import Attack
from colonnade.privacy.attack import attacks as known_attacks
from colonnade.privacy.audit_result import Audit
from colonnade.privacy.audited_run import declared_level, evidence_of, facts_of_audit
from colonnade.privacy.canaries import EpsilonProof, prove_epsilon
from colonnade.privacy.cases import MEMBERSHIP, Case, Evidence, cases_of, column_names, is_silent, material_of
from colonnade.privacy.clock import BUDGET, Clock
from colonnade.privacy.material import Array, Material
from colonnade.privacy.membership_material import check_held_out, membership_material, why_no_members
from colonnade.privacy.second_run import SecondTraining
from colonnade.privacy.verdict import Attempt, Verdict, story, whose
from colonnade.run.training import Run
from colonnade.runtime.setup import threads
from colonnade.wire.view import View

CANARY_SECONDS = 4.0
PASSED = 0.5
"""What an attack must gain over a guess by nobody where its secret was planted, or it decides nothing."""
Progress = Callable[[int, int], None]
"""Called with how many attacks are done, and how many there are."""


@dataclass(frozen=True)
class Guessed:
    """What one attack guessed, before its advantage is known: that depends on how many attacks there are."""

    case: Case
    attack: Attack
    judge: Judge | None = None
    guess: Array | None = None
    control: Array | None = None
    passed: bool = False
    why: str = ""
    unfit: bool = False
    seconds: float = 0.0
    column: Sequence[str] = ()
    """The names of the columns, if those are the secret."""
    apart: bool = False
    """Whether what the adversary has of its own is not here."""


def chosen_attacks(names: Sequence[str] | None) -> list[Attack]:
    """The attacks of these names, or all, the cheap ones first; membership is last, because others train for it."""
    known = known_attacks()
    for name in names or ():
        if name not in known:
            raise unknown("attack", name, known)
    chosen = [known[name]() for name in (known if names is None else names)]
    return sorted(chosen, key=lambda one: (one.trains, one.secret == MEMBERSHIP))


def guesses(evidence: Evidence, attacks: Sequence[Attack], clock: Clock, progress: Progress) -> Iterator[Guessed]:
    """What all attacks guess of all secrets: first what is cheap, for all secrets, then what must train something."""
    cases = [case for case in cases_of(evidence) if not is_silent(evidence, case)]
    in_all = sum(len(_fitting(attacks, evidence, case)) for case in cases)
    second = None if evidence.run is None or len(evidence.owners) > 1 else SecondTraining(evidence, clock)
    done = 0
    cheap = [one for one in attacks if not one.trains]
    for stage in [cheap, *([one] for one in attacks if one.trains)]:
        for case in cases:
            todo = _fitting(stage, evidence, case)
            material = _material(evidence, case, second) if todo else ""
            for one in todo:
                if isinstance(material, str):
                    found = Guessed(case, one, why=material)
                else:
                    found = attempt(case, one, material, clock, evidence.seed)
                yield replace(found, column=column_names(evidence, case), apart=evidence.run is None)
                done += 1
                progress(done, in_all)


def _fitting(attacks: Sequence[Attack], evidence: Evidence, case: Case) -> list[Attack]:
    """The attacks that are about such an adversary and secret."""
    answers = evidence.from_answers(case)
    return [one for one in attacks if one.secret == case.secret and one.from_answers == answers]


def _material(evidence: Evidence, case: Case, second: SecondTraining | None) -> Material | str:
    """What the adversary has; of several owners, one may have too few rows for that, which is then said."""
    try:
        if case.secret == MEMBERSHIP:
            why = why_no_members(evidence)
            return why if why or second is None else membership_material(evidence, second)
        return replace(material_of(case, evidence), second=None if second is None else second.of(case))
    except TableError as error:
        if len(evidence.owners) == 1 and case.secret != MEMBERSHIP:
            raise
        return str(error).rstrip(".")


def attempt(case: Case, one: Attack, material: Material, clock: Clock, seed: int) -> Guessed:
    """One attack on one secret: its guess, its control, and whether it finds what was planted."""
    unfit = one.unfit(material)
    why = unfit or clock.why_not(one.name)
    if why:
        return Guessed(case, one, why=why, unfit=bool(unfit))
    began, material = time.process_time(), one.judged(material)

    def rng(what: str) -> np.random.Generator:
        return np.random.default_rng(derive_seed(seed, *case, one.name, what))

    judge = judge_of(material)
    guess, control = one.guess(material, rng("guess")), one.control(material, rng("control"))
    passed = finds_planted(one, material, rng("planted"))
    clock.costs[one.name] = seconds = time.process_time() - began
    return Guessed(case, one, judge, guess, control, passed, seconds=seconds)


def finds_planted(one: Attack, material: Material, rng: np.random.Generator) -> bool:
    """Whether an attack finds a secret that was put into the messages for it."""
    planted = one.planted(material, rng)
    judge = judge_of(planted)
    score = judge.score(one.guess(planted, rng), np.ones((1, len(judge.truth))))[0]
    return bool((score - judge.nobody) / max(1 - judge.nobody, 0.02) >= PASSED)


def attempts_of(found: Sequence[Guessed], seed: int) -> dict[Case, tuple[Attempt, ...]]:
    """The attempts on every secret, with intervals that hold for all attacks of the audit together."""
    family = sum(one.guess is not None for one in found)
    by_case: dict[Case, tuple[Attempt, ...]] = {}
    for one in found:
        by_case[one.case] = (*by_case.get(one.case, ()), _attempt_of(one, family, seed))
    return by_case


def _attempt_of(one: Guessed, family: int, seed: int) -> Attempt:
    if one.judge is None or one.guess is None or one.control is None:
        return Attempt(one.attack.name, why=one.why, unfit=one.unfit)
    rng = np.random.default_rng(derive_seed(seed, *one.case, one.attack.name, "bootstrap"))
    found = measure_advantage(one.judge, one.guess, one.control, rng, family)
    column = _name_of(one.column, found.best_column)
    return Attempt(
        attack=one.attack.name,
        advantage=found,
        control_passed=one.passed,
        why=_why_undecided(one.passed, found),
        story=story(one.case, one.attack, found, column, apart=one.apart),
        seconds=one.seconds,
    )


def _why_undecided(passed: bool, found: Advantage) -> str:
    """Why an attack that was tried decides nothing; empty if it decides, or if it found something."""
    if found.low > 0:
        return ""
    if not passed:
        return "it does not find a secret that was planted for it, so it decides nothing"
    if found.inverted:
        return "its guesses are the wrong way round, so the messages do tell something"
    return "its control leaves nothing open" if found.no_room else ""


def _name_of(names: Sequence[str], column: int | None) -> str:
    if column is None:
        return ""
    return f"'{names[column]}'" if column < len(names) else f"column {column}"


def verdicts_of(evidence: Evidence, attempts: dict[Case, tuple[Attempt, ...]]) -> tuple[Verdict, ...]:
    """A verdict for every secret and adversary."""
    return tuple(
        Verdict(
            *case,
            attempts=attempts.get(case, ()),
            declared=declared_level(evidence, case),
            silent=is_silent(evidence, case),
        )
        for case in cases_of(evidence)
    )


def audit(
    run: Run | None,
    train: Sequence[Table] | None = None,
    *,
    budget: float = BUDGET,
    attacks: Sequence[str] | None = None,
    seed: int = 0,
    view: View | None = None,
    progress: Progress | None = None,
    test: Sequence[Table] | None = None,
) -> Audit:
    """Measure what a run's messages give away: every attack that fits, with its control, and a verdict for each secret.

    The run was trained with ``record=True``; one that was not is replayed: it is trained once more. ``train`` are its
    tables, which a named data set need not be given. ``budget`` is in CPU seconds; cheap attacks come first, and what
    does not fit is "not tested". ``attacks`` names some of the attacks, by default all are tried; ``progress`` is
    called with how many are done and how many there are. ``view`` is a view of this run to take instead of its own;
    with ``run=None`` that of one side of a federation, which is audited with its own table alone. ``test`` are rows
    that were held out; with them it is also tried to tell from predictions which rows were trained on.

    >>> import colonnade as cn
    >>> train, test = cn.load("breast_cancer")
    >>> run = cn.train(train, "splitnn", epochs=3, record=True)
    >>> found = cn.audit(run, train, attacks=["gradient scoring"])
    >>> found.worst
    'read'
    """
    chosen, clock = chosen_attacks(attacks), Clock(checked_budget(budget))
    evidence = evidence_of(run, train, seed_of(seed), view)
    if test is not None:
        check_held_out(evidence.tables, test)
        evidence = replace(evidence, held_out=test)
    return audit_of(evidence, chosen, clock, progress)


def audit_of(evidence: Evidence, chosen: Sequence[Attack], clock: Clock, progress: Progress | None = None) -> Audit:
    """What these attacks find in this evidence."""
    check_fitting(chosen, evidence)
    with threads(1), threadpool_limits(1):
        proofs = proofs_of(evidence.agreed, clock, evidence.seed)
        found = list(guesses(evidence, chosen, clock, progress or (lambda done, in_all: None)))
        attempts = attempts_of(found, evidence.seed)
    return Audit(verdicts_of(evidence, attempts), facts_of_audit(evidence, clock.budget, clock.spent), proofs)


def check_fitting(chosen: Sequence[Attack], evidence: Evidence) -> None:
    """Refuse attacks of which none is about anything that can be audited here, such as labels that nobody here has."""
    cases = cases_of(evidence)
    if chosen and cases and not any(_fitting(chosen, evidence, case) for case in cases):
        secrets = dict.fromkeys(whose(case.of, case.secret) for case in cases)
        raise ConfigError(
            f"none of the attacks asked for ({', '.join(one.name for one in chosen)}) is about {', '.join(secrets)}, "
            "and nothing else can be audited with what is here; ask for others, or leave out which."
        )


def proofs_of(agreed: Agreement | None, clock: Clock, seed: int) -> tuple[EpsilonProof, ...]:
    """For seals with differential privacy, the epsilon that canaries prove, in a small part of the budget."""
    if agreed is None:
        return ()
    rng = np.random.default_rng(derive_seed(seed, "canaries"))
    seconds = min(CANARY_SECONDS, clock.budget / 10)
    return prove_epsilon(agreed.placed_seals, max(agreed.task.outputs, 2), rng, seconds=seconds)


def checked_budget(budget: float) -> float:
    """A budget of CPU seconds, or one sentence about what else came."""
    if not number(budget, "budget") > 0:
        raise ConfigError(f"budget={budget} is out of range; give a positive number of CPU seconds, such as 60.")
    return float(budget)
