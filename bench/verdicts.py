"""Verdicts as text."""

from bench.goals import Verdict


def verdict_text(verdicts: list[Verdict]) -> str:
    words = {True: "[green]met[/]", False: "[red]missed[/]", None: "[dim]not compared[/]"}
    return "\n".join(f"{verdict.goal} {words[verdict.met]}" for verdict in verdicts)


def goal_text(goal: str, *, met: bool) -> str:
    return verdict_text([Verdict(goal, None, met)])
