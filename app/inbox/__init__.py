"""The inbox: a page on which approvers see what waits for them, and decide it. It only calls the API.

The page is the folder `files`: HTML, CSS and JavaScript modules as they are written, without a build.

inbox ─► filters, pause-list, shortcuts, sign-in
   ├───► pause-view ─► decision-form ─► offers ─► value-form ─► nested-fields, fields
   ├───► run-page ─► run-view ─► step-tree
   └───► events (a stream, and back to it), api (which alone sends requests)
"""

from app.inbox.serving import page

__all__ = ["page"]
