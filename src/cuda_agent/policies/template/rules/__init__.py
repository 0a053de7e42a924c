"""Rules that turn ATen operators into the intermediate form, one file for each family."""
