"""The deck pipeline. Importing it, or any module in it, creates nothing, prints nothing and loads no model."""
