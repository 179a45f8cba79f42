"""M2M100 and NLLB: many languages in one model, named by a token at the head of source and target."""

from knnmt.model.families.family import Family
from knnmt.model.families.positions import tensor2tensor_positions

M2M100 = Family(
    example="facebook/nllb-200-distilled-600M",
    norm_first=True,
    final_norm=True,
    embedding_norm=False,
    positions=tensor2tensor_positions,
)
