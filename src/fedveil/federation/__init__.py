"""The role of a coordinator: it makes a plan, asks the sites that agreed to it, and never sees a record."""
