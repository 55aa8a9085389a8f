"""The organiser's way: who is how far, links, previews, exclusions, agreement, results, export.

Behind a secret of its own: a rater's session opens none of these pages. In English whatever the
study's language is.
"""

from fastapi import APIRouter

from levelfield_rating.web.organiser import (
    actions,
    downloads,
    entry,
    links,
    overview,
    quality,
    texts,
)

router = APIRouter()
for _part in (entry, overview, links, quality, texts, downloads, actions):
    router.include_router(_part.router, prefix="/organiser")
