"""``ke serve``: an OpenAI-compatible endpoint that answers with edits in force.

======== ==========================================================================
opening  from a command line to an edited model
bank     which edits are in force, and the file that remembers them
asked    a request, checked, as a question to the edited model
replies  what the edited model said, as the response
batcher  questions that arrive together are answered together
guarding who may ask, how much, how many at once, for how long
app      the routes (Starlette)
server   the socket, the signals, the end (uvicorn)
client   ``ke serve edits``: the other side of the wire
======== ==========================================================================

``app``, ``guarding`` and ``server`` import Starlette and uvicorn, which ``ke-core[serve]`` brings.
"""
