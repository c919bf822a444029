"""Every table and figure of the papers that can be made again, and the command's work: `reproduce`."""
