"""What every error has in common that a user can do something about."""


class UserError(Exception):
    """The message has the path, the value and the next thing to try; commands print it alone."""
