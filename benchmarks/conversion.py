"""A Marian checkpoint for CTranslate2."""

from __future__ import annotations

from pathlib import Path


def convert(model: Path, compute: str, folder: Path) -> Path:
    """Convert a checkpoint into the new `folder`, keeping the embedding that the decoder starts from.

    CTranslate2's own Marian loader assumes that it is zero, as in models that Marian trained; in a model trained
    elsewhere it need not be, and the output of the stock conversion is then nonsense.
    """
    from ctranslate2.converters import transformers as converters  # type: ignore[import-untyped]

    class Loader(converters.MarianMTLoader):  # type: ignore[misc]
        def set_config(self, config, model, tokenizer):  # type: ignore[no-untyped-def]
            super().set_config(config, model, tokenizer)
            config.decoder_start_token = tokenizer.pad_token

        def set_decoder(self, spec, decoder):  # type: ignore[no-untyped-def]
            super().set_decoder(spec, decoder)
            spec.start_from_zero_embedding = False

        def get_vocabulary(self, model, tokenizer):  # type: ignore[no-untyped-def]
            return converters.BartLoader.get_vocabulary(self, model, tokenizer)

        def _remove_pad_weights(self, spec):  # type: ignore[no-untyped-def]
            pass

    stock = converters._MODEL_LOADERS["MarianConfig"]
    converters._MODEL_LOADERS["MarianConfig"] = Loader()
    try:
        quantization = None if compute == "fp32" else compute
        converters.TransformersConverter(str(model)).convert(str(folder), quantization=quantization)
    finally:
        converters._MODEL_LOADERS["MarianConfig"] = stock
    return folder
