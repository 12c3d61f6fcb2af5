"""Records to statistics to tables and figures; never imports torch."""
