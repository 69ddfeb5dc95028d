"""Who the champion of a population is, beside what Optuna calls its best trial."""

from hpsearch.report.view import StudyView


def champion_text(view: StudyView) -> str:
    """Return the sentence; empty where no match has made a champion."""
    population = view.state.population
    if not population.archive:
        return ""
    last = max(number for number, match in population.matches.items() if match.is_over)
    return (
        f"The champion is trial {population.archive[-1]}, the strongest of match {last}; "
        f'"Best Trial" is by {view.study.spec.objectives[0].metric} alone.'
    )
