"""Studies: the same requests to every system, and their results.

>>> from levelfield.study import load_study
>>> study = load_study("STUDY.toml")  # doctest: +SKIP
>>> study.run(jobs=2).status.counts  # doctest: +SKIP
Counter({'done': 30})

`Study` is imported when it is first used: the process of a callable needs none of it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.study.plan_file import schema
    from levelfield.study.verbs import Study, calibrate_study, load_study

__all__ = ["Study", "calibrate_study", "load_study", "schema"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'levelfield.study' has no attribute '{name}'")
    if name == "schema":
        from levelfield.study.plan_file import schema

        return schema
    from levelfield.study import verbs

    return getattr(verbs, name)
