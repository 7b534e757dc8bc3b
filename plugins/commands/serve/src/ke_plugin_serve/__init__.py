"""``ke serve``: an OpenAI-compatible endpoint that answers with active edits.

=========== ==========================================================================
opening     from a command line to an edited model
bank        the active edits
state       the file that they are saved to
asked       a request, checked, as a question to the edited model
replies     what the edited model said, as the response
batcher     questions that arrive together are answered together
guarding    which requests are let in, how large, how many at once
connections timeouts, and how many connections are open
app         the routes (Starlette)
server      the socket, the signals, the end (uvicorn)
client      ``ke serve edits``: the other side of the wire
=========== ==========================================================================

``app``, ``connections``, ``guarding`` and ``server`` import Starlette and uvicorn.
"""
