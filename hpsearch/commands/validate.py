"""hpsearch validate: check a study file and show what it would search."""

import json
from pathlib import Path

from hpsearch import yaml_file
from hpsearch.study.remarks import remarks
from hpsearch.study.spec import Study, load_spec


def validate(path: Path, *, as_json: bool) -> int:
    """Print the size of the search and one complete example; every fault is raised at once."""
    study = load_spec(path)
    example = _example(study)
    if as_json:
        data = {
            "study": study.spec.name,
            "configurations": study.space.num_configurations(),
            "trials": study.spec.budget.trials,
            "remarks": remarks(study),
            "example": example,
        }
        print(json.dumps(data, indent=1))
        return 0
    count = study.space.num_configurations()
    size = "infinitely many" if count is None else str(count)
    print(f"{path} is a valid study: {study.spec.budget.trials} trials of {size} configurations")
    for remark in remarks(study):
        print(f"note: {remark}")
    print("\none complete trainer configuration of it, the base:\n")
    print(yaml_file.dump(example))
    return 0


def _example(study: Study) -> dict[str, object]:
    return next(iter(study.bases.values()))
