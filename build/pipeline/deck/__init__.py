"""The deck made of captures and figures: words, page, PowerPoint, PDF, and the presenter's server."""
