"""The model room: checkpoints of several families become one network made for decoding."""
