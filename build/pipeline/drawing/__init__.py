"""How a figure is drawn: the sheet, its faces, its charts, and the worker process that draws. Knows no model and no server."""
