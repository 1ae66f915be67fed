"""The tools of `cathedra.insight` behind one message format, for pages: one JSON question, one JSON answer.

`messages` declares the questions and the answer. `limits` bounds what a dump may bring along. `engine` answers: it
holds the state of one cluster, which is either loaded from files or set by a server that follows a cluster.

The same messages go to the server of ``kubectl dra map`` and to a Web Worker that runs this package in the page. They
are versioned as the answers of ``-o json`` are: within ``cathedra.dev/v1``, fields are added, never renamed or removed.
"""

from cathedra.engine.engine import Engine, UsageHistory
from cathedra.engine.limits import Limits
from cathedra.engine.messages import Answer, AnswerError, Question, decode_question

__all__ = ["Answer", "AnswerError", "Engine", "Limits", "Question", "UsageHistory", "decode_question"]
