"""Many nodes judged together: their ranks as peers, what they share, what it costs, what first."""
