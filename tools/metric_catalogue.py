"""Writes `levelfield/metrics/catalogue.json`, from the classes: `python tools/metric_catalogue.py`.

The file is what `levelfield metrics` lists without importing a metric.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from levelfield.core.extensions import METRICS
from levelfield.core.registry import metric_class
from levelfield.metrics.catalogue import FILE, MetricEntry, entry_of

ROOT = Path(__file__).parent.parent


def updated() -> str:
    """Returns the content of the file as the classes declare it now."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    defaults = MetricEntry._field_defaults
    document = {
        target: {
            key: value
            for key, value in entry_of(metric_class(name))._asdict().items()
            if key not in defaults or value != defaults[key]
        }
        for name, target in project["entry-points"][METRICS].items()
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(updated(), encoding="utf-8")
