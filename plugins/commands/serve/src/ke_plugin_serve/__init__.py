"""``ke serve``: an OpenAI-compatible endpoint that answers with active edits.

============ ==========================================================================
startup      load and edit the model
active_edits the active edits
state        the file with the saved edits
rendering    check requests and convert them to questions
replies      convert replies to responses
batcher      batch questions that arrive together
limits       host, token, size and number of requests
wire         parse JSON bodies, check hosts, report errors
connections  timeouts and number of connections
app          the routes (Starlette)
server       socket, signals and shutdown (uvicorn)
client       the client of ``ke serve edits``
============ ==========================================================================

``app``, ``connections``, ``limits`` and ``server`` import Starlette and uvicorn.
"""
