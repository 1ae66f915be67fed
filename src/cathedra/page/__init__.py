"""The device map in the browser: one page, and the server of ``kubectl dra map``.

``static`` is the page: plain modules without a build step. `server` reads them, serves them on loopback and
answers questions with a `cathedra.engine.Engine`; `following` keeps that engine's state up to date by watches, and
`history` remembers the changes of the last hour. The objects are remembered too, for answers about an earlier moment.
"""
