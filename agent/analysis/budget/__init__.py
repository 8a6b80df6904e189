"""How much memory a model needs under a layout, item by item, before anything is started. Pure."""
