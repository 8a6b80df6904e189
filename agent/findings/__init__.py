"""The life of findings: pending, firing, resolved; folded, frozen, remembered."""
