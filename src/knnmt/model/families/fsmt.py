"""FSMT: fairseq's models of the WMT19 news task."""

from knnmt.model.families.family import Family, Vocabularies
from knnmt.model.families.fields import Fields
from knnmt.model.families.positions import tensor2tensor_positions


def _vocabularies(fields: Fields) -> Vocabularies:
    shared = fields.flag("tie_word_embeddings", default=False)
    return Vocabularies(fields.size("src_vocab_size"), fields.size("tgt_vocab_size"), shared)


FSMT = Family(
    example="facebook/wmt19-de-en",
    norm_first=False,
    final_norm=False,
    embedding_norm=False,
    positions=tensor2tensor_positions,
    vocabularies=_vocabularies,
    output="model.decoder.output_projection.weight",
)
