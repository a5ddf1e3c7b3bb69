# SPDX-License-Identifier: MIT
"""What stands beside a model, put into directory DIR of one: the layout of sentence-transformers (as all-MiniLM-L6-v2 has it, and
2_Dense with weights), ONNX, other weights, an adapter, links. Prints the files that a copy has, one a line."""
import os, sys

root = sys.argv[1]
copied = {
    "modules.json": '[{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}, '
                    '{"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}]',
    "config_sentence_transformers.json": "{}",
    "sentence_bert_config.json": '{"max_seq_length": 256, "do_lower_case": false}',
    "1_Pooling/config.json": '{"word_embedding_dimension": 32, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}',
    "2_Dense/config.json": '{"in_features": 32, "out_features": 8}',
    "2_Dense/model.safetensors": "of a module",
    "2_Dense/pytorch_model.bin": "of a module",
    "onnx/config.json": "{}",
    "original/params.json": '{"dim": 32}',
    "a/b/c/d/e/f/g/deep.txt": "deep",
}
left = ["3_Dense/model.safetensors", "onnx/model.onnx", "original/consolidated.00.pth", "mtp.safetensors",
        "adapter_config.json", "adapter_model.safetensors", ".git/config", "1_Pooling/.hidden", "a/b/c/d/e/f/g/h/deeper.txt",
        "old.partial/fingerprint.json"]
for name, text in [*copied.items(), *((name, "left") for name in left)]:
    os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
    with open(os.path.join(root, name), "w") as file:
        file.write(text)
with open(root + "/onnx/huge.json", "w") as file:
    file.truncate((1 << 26) + 1)
os.symlink("..", root + "/1_Pooling/up")
os.symlink("nowhere", root + "/1_Pooling/dangling.json")
os.symlink("/etc", root + "/etc")
os.mkfifo(root + "/1_Pooling/pipe")
os.mkdir(root + "/2_Normalize")
print("\n".join(sorted(copied)))
