"""The one exception a user is meant to read."""


class FedveilError(Exception):
    """Something the user can mend: one line that says what is wrong and where.

    The command line prints it without a traceback and exits with code 2.
    """
