"""The organiser's way: who is how far, links, previews, exclusions, agreement, results, export.

A secret of its own opens these pages: a rater's session opens none of them. They are in English
whatever the study's language is.
"""

from fastapi import APIRouter

from levelfield_rating.web.organiser import actions, pages, quality

router = APIRouter()
for _part in (pages, quality, actions):
    router.include_router(_part.router, prefix="/organiser")
