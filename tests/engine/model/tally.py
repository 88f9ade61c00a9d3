"""How often each rule ran, how often it had an effect, and what came about on the way."""

from __future__ import annotations

from collections import Counter

from tests.engine.model.parts import Refusal


class Tally:
    """Counts over all examples of a session."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.worked: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()

    def ran(self, rule: str, expected: object = None) -> None:
        """A rule was carried out; a refusal is not an effect."""
        self.tried[rule] += 1
        if isinstance(expected, Refusal):
            self.refused[expected.names[0]] += 1
        else:
            self.worked[rule] += 1

    def table(self) -> list[str]:
        """The lines of the report."""
        lines = [f"{'rule':<34}{'ran':>8}{'with effect':>13}"]
        lines += [f"{r:<34}{n:>8}{self.worked[r]:>13}" for r, n in sorted(self.tried.items())]
        lines += ["", f"{'refused with':<34}{'times':>8}"]
        lines += [f"{name:<34}{n:>8}" for name, n in sorted(self.refused.items())]
        lines += ["", f"{'what came about':<60}{'times':>8}"]
        lines += [f"{what:<60}{n:>8}" for what, n in sorted(self.happened.items())]
        return lines


TALLY = Tally()
