"""The rater's way: link, welcome, instructions, examples, practice, rating, review, thanks.

Every page works as a plain form. The script of the rating page takes over where it runs, with the
same answers through `/api/`.
"""

from fastapi import APIRouter

from levelfield_rating.web.rater import api, items, phases, practice

router = APIRouter()
for _part in (phases, practice, items, api):
    router.include_router(_part.router)
