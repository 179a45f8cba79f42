"""How good and how fast: BLEU, chrF, COMET, significance, speed."""
