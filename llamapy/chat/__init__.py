"""Messages to one text, by the template that a model brings."""
