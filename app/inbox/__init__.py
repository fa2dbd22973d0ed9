"""The inbox: a page on which approvers see what waits for them, and decide it. It only calls the API.

The page is the folder `files`: HTML, CSS and JavaScript modules as they are written, without a build.

inbox ─► pause-list, pause-view ─► decision-form ─► value-form ─► fields
   └───► api, which alone sends requests
"""

from app.inbox.serving import page

__all__ = ["page"]
