"""`medvqa-hub purge`: removing what this package left on a machine of rows of one class."""
