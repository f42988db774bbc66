"""What marey knows of Triton: its launch hooks, and what comes through them."""
