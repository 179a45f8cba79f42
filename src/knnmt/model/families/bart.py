"""BART, and mBART / mBART-50, which normalises before each block and once more after the last."""

from dataclasses import replace

from knnmt.model.families.family import Family

BART = Family(example="facebook/bart-base", norm_first=False, final_norm=False, embedding_norm=True)

MBART = replace(BART, example="facebook/mbart-large-50-many-to-many-mmt", norm_first=True, final_norm=True)
