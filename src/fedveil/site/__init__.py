"""The role of a site: it keeps its records, its secrets and its budget, and answers what it has agreed to."""
