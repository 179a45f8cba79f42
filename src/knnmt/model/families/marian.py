"""Marian: the OPUS-MT models, and others converted from Marian NMT."""

from knnmt.model.families.family import Family, Vocabularies, one_vocabulary
from knnmt.model.families.fields import Fields
from knnmt.model.families.positions import marian_positions


def _vocabularies(fields: Fields) -> Vocabularies:
    source = one_vocabulary(fields)
    if fields.flag("share_encoder_decoder_embeddings", default=True):
        return source
    return Vocabularies(source.source, fields.size("decoder_vocab_size"), shared=False)


MARIAN = Family(
    example="Helsinki-NLP/opus-mt-de-en",
    norm_first=False,
    final_norm=False,
    embedding_norm=False,
    positions=marian_positions,
    unused_positions=0,
    vocabularies=_vocabularies,
)
